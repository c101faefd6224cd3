"""upgrade: brings an older store up to date, so that it can be read again."""

from __future__ import annotations

from agentos.errors import StoreTooOld
from agentos.interfaces.cli.errors import Exit
from agentos.interfaces.cli.invocation import Here
from agentos.interfaces.cli.output import say
from agentos.kernel import open as open_kernel
from agentos.kernel.reading import reading


async def upgrade(*, here: Here) -> int:
    """Bring an older store up to the schema of this program. No entry of a log is changed; running an agent does it too."""
    url = here.store_url()
    try:
        async with reading(url) as store:
            await store.query("select 1")
    except StoreTooOld as old:
        async with open_kernel(url) as kernel:
            say(f"{kernel.store.url}: upgraded from schema version {old.found} to {old.known}")
        return Exit.OK
    say(f"{store.url} is up to date")
    return Exit.OK
