"""Children that are forked: what they told is heard, whatever becomes of them. Each test has a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

BEGIN = """
import os, signal, threading, time
from agentos.testing.forked import Forked, Silence
"""


def said(script: str) -> list[str]:
    ran = subprocess.run([sys.executable, "-c", BEGIN + script], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


def test_a_child_tells_lines_and_ends() -> None:
    assert said("""
with Forked(lambda tell: [tell("one"), tell("two")]) as child:
    print(list(child.lines(60)))
print(child.status)
""") == ["['one', 'two']", "0"]


def test_what_a_child_told_before_it_was_killed_is_heard() -> None:
    assert said("""
told, telling = os.pipe()
def work(tell):
    tell("begun")
    tell("acknowledged")
    os.write(telling, b".")
    time.sleep(600)
with Forked(work) as child:
    for line in child.lines(60):
        print(line)
        if line == "begun":
            os.read(told, 1)
            child.kill()
print(child.status)
""") == ["begun", "acknowledged", "-9"]


@pytest.mark.parametrize("way", ["raise SystemExit(0)", "raise ValueError"])
def test_a_child_that_does_not_end_in_order_has_a_status(way: str) -> None:
    assert said(f"""
def work(tell):
    {way}
with Forked(work) as child:
    pass
print(child.status)
""") == ["1"]


def test_a_child_that_says_nothing_is_not_waited_for_without_end() -> None:
    assert said("""
try:
    with Forked(lambda tell: time.sleep(60)) as child:
        list(child.lines(0.05))
except Silence as silence:
    print(silence)
print(child.status)
""") == ["no word for 0.05 s", "-9"]


def test_a_process_with_threads_is_not_forked() -> None:
    assert said("""
over = threading.Event()
threading.Thread(target=over.wait).start()
try:
    Forked(lambda tell: None)
except RuntimeError as error:
    print(error)
finally:
    over.set()
""") == ["a process with threads cannot be forked: the child would have the locks that they hold"]
