"""What the road costs: figures with bounds, in rounds that do the same work in several ways.

    python -m agentos.testing.bench [--rounds N] [--strict] [NAME ...]

A figure that has something to be compared with is a ratio, both sides measured in the same round: single times say little
on a busy machine. CPU is that of the process, so that the work of other processes does not count as ours.

    memory      a turn (input, reply with one call, async tool, final reply; no latency) against a bare asyncio loop
    durable     the same on SQLite `normal` against a bare loop that commits one sqlite3 row a step
    fan-out     1,000 durable conversations x 3 turns at once against a bare loop with one commit for all that is ready
    flat        turn 1,000 of a conversation against turn 10, in CPU and in bytes stored
    entries     durable entries a second on SQLite, `normal` and `full`, when many clients share each commit
    postgresql  CPU of this process for the same units on PostgreSQL and on SQLite
    listing     one page of 100,000 conversations
    opening     a conversation of 100,000 entries of which the last 1,000 messages are shown
    bytes       what a turn takes in the file of a SQLite store
    verify      entries that verify checks in a second of one core, against a bare loop over the same heads
    replay      entries that strict replay decides again in a second of one core, against the same
    as-of       a look at a conversation of 100,000 entries as it stood after one of them: entries folded, early and late
    erase       erasing one conversation of 100,000, the whole command, until its bytes are overwritten
    lua         a worker process until it takes scripts in Lua, and one script in it
    rounds      every kind of resource made, lent, used, given back and closed, 2,000 times (200 where it is a process)
"""
