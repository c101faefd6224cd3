"""Real kills, in the short form; `make torture` has the long one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from agentos.testing.torture_checks import check
from agentos.testing.torture_life import EFFECTS, live


def test_twelve_kills_lose_nothing_and_repeat_nothing() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "agentos.testing.torture", "--kills", "12", "--seed", "3"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.stdout.splitlines()[-1] == "ok", ran.stdout + ran.stderr
    assert ran.returncode == 0


async def test_the_checks_name_an_effect_that_happened_twice_and_an_input_that_is_lost(tmp_path: Path) -> None:
    await live(tmp_path, 1, lambda _sign: None, last=True)
    (tmp_path / EFFECTS).write_text("call_01m8p15r1neyfa3t37b34a1qce_7 1 once\n" * 2)

    findings = await check(tmp_path, [("conversation_01m8p15r1neyfa3t37b34a1qce", 2)])

    assert findings.counts["once, but twice"] == 1
    assert findings.counts["effects without a stored start"] == 1
    assert findings.counts["acknowledged inputs lost"] == 1
    assert len(findings.broken) == 3
