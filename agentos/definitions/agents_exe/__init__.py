"""Agent files and the configuration of agents-exe, read into our own form."""

from agentos.definitions.agents_exe.agent import Imported, is_agents_exe, native

__all__ = ["Imported", "is_agents_exe", "native"]
