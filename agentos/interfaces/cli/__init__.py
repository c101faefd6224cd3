"""The command line. Nothing of the kernel is imported before a command needs it."""

from agentos.interfaces.cli.app import main

__all__ = ["main"]
