"""The runners: the only async code that touches models, tools and hooks. They write nothing and end in one report."""

from agentos.effects.base import Services
from agentos.effects.runner import Runner

__all__ = ["Runner", "Services"]
