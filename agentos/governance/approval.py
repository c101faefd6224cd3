"""Approval ports that need nobody: everything is allowed, or nothing is."""

from __future__ import annotations

from typing import ClassVar

from agentos.components import ApprovalMode, Verdict
from agentos.ports import ApprovalRequest


class AllowAll:
    """Allows every call that a policy or a hook would have a person asked about. Denials stay denials."""

    mode: ClassVar[ApprovalMode] = ApprovalMode.ALLOW

    async def decide(self, _request: ApprovalRequest) -> Verdict | None:
        return Verdict.ALLOW


class DenyAll:
    """Denies every call that a person would be asked about, as when nobody listens."""

    mode: ClassVar[ApprovalMode] = ApprovalMode.DENY

    async def decide(self, _request: ApprovalRequest) -> Verdict | None:
        return Verdict.DENY
