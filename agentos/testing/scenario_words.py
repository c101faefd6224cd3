"""The steps of scenario files, each with its keys. `scenario_cast` has who plays, `scenario_file` the file as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from agentos.components import Outcome, Resolution
from agentos.definitions.spec import Slug
from agentos.definitions.toolbox_spec import BoxName, Count, Positive, Seconds, Strict, ToolName
from agentos.events.kinds import KINDS
from agentos.testing.scenario_cast import Short

Scalar = str | int | float | bool | None


class Start(Short):
    """A conversation begins, under a name for the steps that follow; by default that of its agent."""

    short: ClassVar[str] = "agent"
    agent: Slug
    as_: Annotated[str | None, Field(alias="as")] = None


class Ask(Short):
    """Sends a text and waits for the end of its turn, unless in the background. to: by default the first conversation."""

    short: ClassVar[str] = "text"
    text: str
    to: str | None = None
    background: bool = False


class Crowd(Strict):
    """All copies of an agent are asked at the same time, each in a conversation of its own, and again in each round.

    text is what they are asked, says what each has to answer, whole; in both {agent} is the slug of the copy and {round}
    the number of the round, from 1.
    """

    agent: Slug
    text: str
    says: str
    rounds: Positive = 1


class Command(Short):
    """A command of this program, run in a process of its own over the store of the scenario, while its kernel goes on. says
    are parts of what it prints; blanks count as one. exit is the code it has to end with."""

    short: ClassVar[str] = "run"
    run: str
    says: str | list[str] = Field(default_factory=list)
    exit: int = 0


class Send(Short):
    """Sends a text, which is stored when the step ends."""

    short: ClassVar[str] = "text"
    text: str
    to: str | None = None


class WaitFor(Strict):
    """Waits until all of it is so.

    running: so many calls are with their tools; held: so many of them wait to be released; queued: so many calls wait
    for room in their toolbox. file: there is a file of this name in the folder of the run. parked and ended name a
    conversation that waits for a person, or has no open turn. entry is a kind, of which `of` has (at least) `times`.
    """

    running: Count | None = None
    held: Count | None = None
    queued: Count | None = None
    file: str | None = None
    parked: str | None = None
    ended: str | None = None
    entry: str | None = None
    times: Positive = 1
    of: str | None = None

    @field_validator("entry")
    @classmethod
    def _check_kind(cls, entry: str | None) -> str | None:
        return _checked_kind(entry) if entry is not None else None


class Release(Short):
    """Lets the oldest `calls` held calls of a tool go on; without calls all, and those that come later too."""

    short: ClassVar[str] = "tool"
    tool: ToolName
    calls: Positive | None = None


class Cancel(Short):
    """Ends the open turn of a conversation."""

    short: ClassVar[str] = "of"
    of: str | None = None


class Answer(Short):
    """Answers the oldest open approval request, or the oldest for a tool."""

    short: ClassVar[str] = "verdict"
    verdict: Literal["allow", "deny"]
    tool: ToolName | None = None
    reason: str = ""


class Resolve(Short):
    """Says what became of the oldest call in doubt, or of the oldest of a tool: one that waits, or has ended as unknown."""

    short: ClassVar[str] = "as"
    as_: Annotated[Resolution, Field(alias="as")]
    tool: ToolName | None = None
    result: str | None = None
    reason: str = ""
    by: str = "user"


class Advance(Short):
    """Lets time pass on the clock, and what it sets off happen."""

    short: ClassVar[str] = "seconds"
    seconds: Seconds


class Plain(Short):
    """A step that needs no words: crash, kill, close, reopen, recover, freeze, thaw."""


class DeclareDead(Short):
    """Says, as a person would, that another process is dead."""

    short: ClassVar[str] = "process"
    process: Slug


class Expect(Strict):
    """What must be so now; each key is compared by itself.

    of: the conversation that outcome, text, says, state, kinds, has, calls and doubted are about: a name, or the agent
    of a child. outcome and text are those of its last turn, says parts of the text. kinds are all its entries in order,
    has some of them in this order. calls counts its calls by status, doubted names the tools of those in doubt.
    effects are the lines of the effect file, or their number. most_inside says how many calls a toolbox had inside at
    most. processes is how many processes live below the one of the kernel, those too that left their parents. rows are
    those of the query sql.
    """

    of: str | None = None
    outcome: str | None = None
    text: str | None = None
    says: str | list[str] | None = None
    state: Literal["idle", "running", "parked", "paused", "closed"] | None = None
    kinds: list[str] | None = None
    has: list[str] | None = None
    calls: dict[str, Count] | None = None
    doubted: list[ToolName] | None = None
    effects: Count | list[str] | None = None
    most_inside: dict[BoxName, Count] | None = None
    processes: Count | None = None
    sql: str | None = None
    rows: list[list[Scalar]] | None = None

    @field_validator("kinds", "has")
    @classmethod
    def _check_kinds(cls, kinds: list[str] | None) -> list[str] | None:
        return [_checked_kind(kind) for kind in kinds] if kinds is not None else None

    @field_validator("outcome")
    @classmethod
    def _check_outcome(cls, outcome: str | None) -> str | None:
        known = [one.value for one in Outcome]
        if outcome is not None and outcome.partition("(")[0] not in known:
            raise ValueError(f"no outcome {outcome!r}; there are {', '.join(known)}, some with a name: limit(steps)")
        return outcome

    @model_validator(mode="after")
    def _complete(self) -> Expect:
        if (self.sql is None) != (self.rows is None):
            raise ValueError("sql and rows stand together")
        if not self.model_fields_set - {"of"}:
            raise ValueError("nothing is expected")
        return self


class Step(Strict):
    """One step: its word, and what belongs to it.

    in: the process that does it, by default the first one of `processes`. refused: parts of the error that it must end
    with; a step that is not refused, or for another reason, has failed then.
    """

    start: Start | None = None
    ask: Ask | None = None
    crowd: Crowd | None = None
    command: Command | None = None
    send: Send | None = None
    wait_for: WaitFor | None = None
    release: Release | None = None
    cancel: Cancel | None = None
    answer: Answer | None = None
    resolve: Resolve | None = None
    advance: Advance | None = None
    crash: Plain | None = None
    kill: Plain | None = None
    close: Plain | None = None
    reopen: Plain | None = None
    recover: Plain | None = None
    freeze: Plain | None = None
    thaw: Plain | None = None
    declare_dead: DeclareDead | None = None
    expect: Expect | None = None
    in_: Annotated[Slug | None, Field(alias="in")] = None
    refused: str | list[str] | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_word(cls, value: object) -> object:
        if isinstance(value, str):
            return {value: {}}
        if isinstance(value, Mapping):
            return {word: {} if said is None else said for word, said in value.items()}
        return value

    @model_validator(mode="after")
    def _one(self) -> Step:
        if len(self.model_fields_set - _ABOUT_STEPS) != 1:
            words = [word for word in type(self).model_fields if word not in _ABOUT_STEPS]
            raise ValueError(f"a step is one of {', '.join(words)}")
        return self

    @property
    def word(self) -> str:
        (word,) = self.model_fields_set - _ABOUT_STEPS
        return word

    @property
    def refusal(self) -> list[str]:
        """What its error must say; nothing when it is to go well."""
        return [self.refused] if isinstance(self.refused, str) else self.refused or []

    @property
    def said(self) -> Any:
        return getattr(self, self.word)


_ABOUT_STEPS = frozenset({"in_", "refused"})


def _checked_kind(kind: str) -> str:
    if kind not in KINDS:
        raise ValueError(f"no entry is of kind {kind!r}; there are {', '.join(KINDS)}")
    return kind
