"""The options that make up a prompt, and from them its text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from agentos.definitions import Project
from agentos.interfaces.cli.invocation import Flag, Invocation
from agentos.interfaces.cli.prompt.alias import aliases_of
from agentos.interfaces.cli.prompt.parts import Part, PartKind, parts_in_order
from agentos.interfaces.cli.prompt.text import PromptText
from agentos.settings import Settings


def _option(*names: str, help: str) -> Parameter:
    return Parameter(name=list(names), help=help, negative="", show_default=False, allow_leading_hyphen=True)


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class PromptOptions:
    """What to ask: parts joined by line breaks, in the order in which they stand on the command line."""

    prompt: Annotated[tuple[str, ...], _option("--prompt", "-p", help="a text")] = ()
    file: Annotated[tuple[str, ...], _option("--file", "-f", help="what stands in a file; - is stdin")] = ()
    shell: Annotated[tuple[str, ...], _option("--shell", help="what a command of the shell prints")] = ()
    alias: Annotated[
        tuple[str, ...], _option("--alias", help="a prompt with a name, about stdin, or about a file: NAME=FILE")
    ] = ()
    sep4: Annotated[tuple[str, ...], _option("--sep4", "-s", help="a text 4 times, to set parts apart")] = ()
    sep40: Annotated[tuple[str, ...], _option("--sep40", "-S", help="a text 40 times")] = ()
    echo_prompt: Annotated[Flag, Parameter(help="print the prompt and ask nobody")] = False

    def parts(self, here: Invocation) -> list[Part]:
        """The parts in order, which the options alone do not tell."""
        parts = parts_in_order(here.tokens)
        assert self._same(parts), f"the command line was read in two ways: {self} and {parts}"
        return parts

    def _same(self, parts: list[Part]) -> bool:
        said = {
            PartKind.TEXT: self.prompt,
            PartKind.FILE: self.file,
            PartKind.SHELL: self.shell,
            PartKind.ALIAS: self.alias,
            PartKind.SEP4: self.sep4,
            PartKind.SEP40: self.sep40,
        }
        return all(tuple(value for kind, value in parts if kind is one) == values for one, values in said.items())


async def prompt_text(options: PromptOptions, here: Invocation, project: Project | None) -> str:
    """The whole prompt, or what stdin has when there are no parts. Raises UsageError, OSError."""
    settings = project.settings if project is not None else Settings()
    return await PromptText(aliases_of(project), settings.input_bytes_max).build(options.parts(here))
