"""The past: a conversation, the processes and the tables as they were."""
