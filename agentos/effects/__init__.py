"""The runners: the only async code that touches models, tools and hooks. They write nothing and end in one report."""

from agentos.effects.runner import Runner, Services

__all__ = ["Runner", "Services"]
