"""The commands, and what goes for all of them: the store, the help, exit codes, broken pipes."""

from __future__ import annotations

import asyncio
import inspect
import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

from cyclopts import App, CycloptsError, Parameter

from agentos.interfaces.cli.errors import Exit, report
from agentos.interfaces.cli.invocation import Invocation
from agentos.interfaces.cli.output import prepare_streams, say_error

COMMANDS = (
    # name, function, what it does, examples
    ("init", "project:init", "Write a project that runs: an agent, two tools, agentos.toml.", "agentos init my-agents"),
    (
        "run",
        "run:run",
        "Ask an agent, and print its answer.",
        "agentos run -p 'count_words text=\"to be or not to be\"'\n"
        "agentos run -a helper < question.txt\n"
        "agentos run --agent-file helper.yaml -p 'hello' --json\n"
        "agentos run --resume",
    ),
    ("ps", "ps:ps", "List conversations as processes.", "agentos ps --state running\nagentos ps --json"),
    (
        "query",
        "query:query",
        "Ask the store in SQL.",
        "agentos query 'select role, text from messages'\n"
        "agentos query 'select tool, status, count(*) n from tool_calls group by 1, 2' --json",
    ),
    (
        "show",
        "show:show",
        "Print a conversation entry by entry, or a model request.",
        "agentos show 0v3kq\nagentos show 0v3kq 12\nagentos show 0v3kq --request",
    ),
    ("lineage", "lineage:lineage", "Print the tree of calls through all subagents.", "agentos lineage 0v3kq"),
    (
        "watch",
        "watch:watch",
        "Print the entries of a conversation, then new ones as they come.",
        "agentos watch 0v3kq\nagentos watch 0v3kq --after 12 --json --until-settled",
    ),
    ("answer", "commands:answer", "Answer an approval request.", "agentos answer\nagentos answer call_..._7 allow"),
    ("cancel", "commands:cancel", "Cancel the open turn of a conversation.", "agentos cancel 0v3kq"),
    (
        "replay",
        "check:replay",
        "Decide all again from what was recorded; nothing is called.",
        "agentos replay\nagentos replay 0v3kq",
    ),
    ("verify", "check:verify", "Recompute digests, commitments and tables from the log.", "agentos verify --json"),
    (
        "demo",
        "demo.command:demo",
        "Let 200 conversations work on the files of a folder.",
        "agentos demo .\nagentos demo ~/notes --seed 7",
    ),
)

EPILOGUE = """Examples:
  agentos init                                     make a project here
  agentos run -p 'count_words text="to be"'        ask its agent
  agentos ps                                       see all conversations
  agentos query 'select role, text from messages'  ask the store
  agentos demo .                                   see 200 conversations at work

Exit codes: 0 ok, 1 failure, 2 usage, 3 configuration, 4 provider, 5 tool, 6 limit, 7 refused or waiting for approval,
130 interrupted."""


def main(argv: list[str] | None = None) -> int:
    """Runs one command and gives its exit code; nothing but a fault of this program shows a traceback, and only if asked."""
    prepare_streams()
    try:
        code = _run(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()
    except BrokenPipeError:
        return _hung_up()
    except (KeyboardInterrupt, asyncio.CancelledError):
        return Exit.INTERRUPTED
    except CycloptsError as error:
        say_error(str(error))
        return Exit.USAGE
    except Exception as error:
        return report(error)
    return code


def make_app() -> App:
    """The commands by name; their modules are imported when one is called."""
    app = App(
        name="agentos",
        help="An operating-system kernel for agents.",
        help_formatter="plain",
        help_format="plaintext",
        help_epilogue=EPILOGUE,
        version=_version,
    )
    for place, (name, target, help_, examples) in enumerate(COMMANDS):
        app.command(
            f"agentos.interfaces.cli.{target}",
            name=name,
            help=help_,
            help_epilogue=_examples(examples),
            sort_key=place,
        )
    app.command(_scenario_app())
    _add_globals(app)
    return app


def _version() -> str:
    from agentos import __version__

    return __version__


def _scenario_app() -> App:
    example = _examples("agentos scenario run scenarios/crash_and_resume.yaml")
    text = "Run a scenario file and check what must hold."
    app = App(name="scenario", help=text, help_epilogue=example, sort_key=len(COMMANDS))
    app.command(
        "agentos.interfaces.cli.scenario:run", name="run", help="Run one scenario file.", help_epilogue=example
    )
    return app


def _add_globals(app: App) -> None:
    """--store and --no-color, wherever they stand on the line."""

    def launch(
        *tokens: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)],
        store: Annotated[str | None, Parameter(help="URL of the store [env var: AGENTOS_STORE]")] = None,
        no_color: Annotated[bool, Parameter(negative="", help="print no colours")] = False,
    ) -> int | None:
        if no_color:
            os.environ["NO_COLOR"] = "1"
        command, bound, ignored = app.parse_args(tokens, exit_on_error=False, print_error=False)
        given = dict.fromkeys(ignored, Invocation(store))
        return _call(command, bound.args, {**bound.kwargs, **given})

    app.meta.default(launch)


def _call(command: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> int | None:
    result = command(*args, **kwargs)
    if inspect.iscoroutine(result):
        result = asyncio.run(result)
    return result if isinstance(result, int) else None


def _run(argv: list[str]) -> int:
    app = make_app()
    code = app.meta(argv, exit_on_error=False, print_error=False, result_action="return_value")
    return code if isinstance(code, int) else Exit.OK


def _hung_up() -> Exit:
    """Who read our output has gone; what is left in the buffers goes nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    return Exit.BROKEN_PIPE


def _examples(text: str) -> str:
    return "Examples:\n" + "\n".join(f"  {line}" for line in text.splitlines())
