"""The bounds of turns and calls at once: none costs anything until a setting, or an agent file, asks for it."""

from __future__ import annotations

from agentos.clock import Clock
from agentos.definitions import AgentSpec
from agentos.kernel.admission import Admission
from agentos.kernel.late_calls import LateCalls
from agentos.kernel.limiting import Limiting
from agentos.kernel.services import LiveServices
from agentos.kernel.tick import Ticker
from agentos.resources import Slots
from agentos.resources.lookout import Lookout
from agentos.settings import Settings


class Bounding:
    """Puts the bounds in force: those of the settings now, those of an agent when its file is taken (`as_said`)."""

    def __init__(
        self,
        limiting: Limiting,
        ticker: Ticker,
        services: LiveServices,
        slots: Slots,
        lookout: Lookout,
        clock: Clock,
        settings: Settings,
    ) -> None:
        self._limiting, self._ticker, self._services = limiting, ticker, services
        self._slots, self._lookout, self._clock = slots, lookout, clock
        if settings.turns_max or settings.tenant_turns_max or settings.agent_turns_max:
            self._bound_turns()
        calls_max = settings.calls_max or settings.tenant_calls_max or settings.agent_calls_max
        if calls_max or settings.conversation_calls_max:
            self._bound_calls()

    def as_said(self, spec: AgentSpec) -> None:
        """An agent file has bounds of its own, which may be others than before."""
        if spec.turns_at_once and self._ticker.admission is None:
            self._bound_turns()
        if spec.calls_at_once and self._slots.at_once is None:
            self._bound_calls()
        for bounded in (self._services.admission, self._slots.at_once):
            if bounded is not None:
                bounded.ask_bounds_again()

    def _bound_turns(self) -> None:
        self._services.admission = admission = Admission(self._limiting, self._ticker.loaded, self._ticker.wake)
        self._ticker.admit(admission)

    def _bound_calls(self) -> None:
        self._slots.at_once = at_once = self._limiting.calls(self._slots.ask_again)
        self._lookout.bounds.append(LateCalls(at_once, self._clock, self._lookout).look)
