"""Entry of the command line: the store and the other options of all commands, exit codes, broken pipes."""

from __future__ import annotations

import inspect
import os
import signal
import sys
from collections.abc import Sequence
from typing import Annotated, Any

from cyclopts import App, CycloptsError, Parameter, UnknownCommandError

from agentos.interfaces.cli.errors import Exit, hint, report
from agentos.interfaces.cli.invocation import Flag, Invocation
from agentos.interfaces.cli.listing import (
    COMMANDS,
    EPILOGUE,
    GROUPS,
    Group,
    Listed,
    examples_of,
    names,
)
from agentos.interfaces.cli.output import hang_up, prepare_streams, say_error


def main(argv: list[str] | None = None) -> int:
    """Runs one command and gives its exit code. No error shows a traceback unless AGENTOS_DEBUG asks for it."""
    prepare_streams()
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:  # as some services start what they start
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        code = _run(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()
    except BrokenPipeError:
        hang_up()
        return Exit.BROKEN_PIPE
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except UnknownCommandError as error:
        return _unknown(error)
    except CycloptsError as error:
        say_error(str(error))
        return Exit.USAGE
    except Exception as error:
        return report(error)
    except _cancelled():
        return Exit.INTERRUPTED
    return code


def _cancelled() -> type[BaseException]:
    """What a cancelled command raises; asyncio is loaded where it is needed, since --help and --version need none of it."""
    import asyncio

    return asyncio.CancelledError


def make_app(words: Sequence[str] = ()) -> App:
    """The commands by name; the module of one is imported when it is called, and its docstring is then its help."""
    app = App(
        name="agentos",
        help="An operating-system kernel for agents.",
        help_formatter="plain",
        help_format="plaintext",
        help_epilogue=EPILOGUE,
        version=_version,
    )
    first = next((word for word in words if not word.startswith("-")), "")
    _add(app, COMMANDS, () if first in [group.name for group in GROUPS] else words)
    for place, group in enumerate(GROUPS, len(COMMANDS)):
        app.command(_group(group, place, words))
    _add_options(app)
    return app


def _group(group: Group, place: int, words: Sequence[str]) -> App:
    examples = examples_of(*group.commands)
    made = App(name=group.name, help=group.help, help_epilogue=examples, sort_key=place)
    _add(made, group.commands, words if group.name in words else ())
    return made


def _add(app: App, commands: Sequence[Listed], words: Sequence[str]) -> None:
    for place, command in enumerate(commands):
        app.command(
            f"agentos.interfaces.cli.{command.target}",
            name=command.name,
            help=command.help,
            help_epilogue=examples_of(command),
            sort_key=place,
        )
        if command.name in words:
            app[command.name].help = described(app[command.name].default_command)


def described(function: object) -> str:
    """What a docstring says before its parameters, each paragraph in one line, to be wrapped as the terminal needs."""
    text = (inspect.getdoc(function) or "").partition("\nParameters\n")[0]
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n")).strip()


def _add_options(app: App) -> None:
    """--store and --no-color, wherever they stand on the line."""

    def launch(
        *tokens: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)],
        store: Annotated[str | None, Parameter(help="URL of the store [env var: AGENTOS_STORE]")] = None,
        no_color: Annotated[Flag, Parameter(help="print no colours [env var: NO_COLOR]")] = False,
    ) -> int | None:
        if no_color:
            os.environ["NO_COLOR"] = "1"
        command, bound, ignored = app.parse_args(tokens, exit_on_error=False, print_error=False)
        given = dict.fromkeys(ignored, Invocation(store, tokens))
        return _call(command, bound.args, {**bound.kwargs, **given})

    app.meta.default(launch)


def _run(argv: list[str]) -> int:
    code = make_app(argv).meta(argv, exit_on_error=False, print_error=False, result_action="return_value")
    return code if isinstance(code, int) else Exit.OK


def _call(command: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> int | None:
    result = command(*args, **kwargs)
    if inspect.iscoroutine(result):
        import asyncio

        result = asyncio.run(result)
    return result if isinstance(result, int) else None


def _unknown(error: UnknownCommandError) -> Exit:
    """Told by the names alone: cyclopts would import every command for its own message."""
    word = (error.unused_tokens or ["?"])[0]
    near = hint(word, names(tuple(error.command_chain or ())))
    say_error(f"there is no command {word!r}{near or '.'} 'agentos --help' lists the commands")
    return Exit.USAGE


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("agentos-kernel")
    except PackageNotFoundError:
        return "unknown: this copy was not installed"
