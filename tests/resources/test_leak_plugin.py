"""The fixture `no_leaks`, as a project of somebody else has it: one run of pytest in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

linux = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="only /proc names descriptors and children")

CONFTEST = """
import pytest
from agentos.testing.leaks import meter

pytest_plugins = ["agentos.testing.plugin"]
meter.POLLS = 50  # what leaks here leaks on purpose

@pytest.fixture(scope="session")
def anyio_backend():
    return "asyncio"

@pytest.fixture(scope="session")
def wide():
    with open(__file__) as file:
        yield file

@pytest.fixture
def tidy():
    with open(__file__) as file:
        yield file

@pytest.fixture
def messy(kept=[]):
    kept.append(open(__file__))
"""

TESTS = """
import asyncio, os, subprocess, sys, tempfile, threading
import pytest
from hypothesis import HealthCheck, given, settings, strategies
import agentos

kept = []

def test_clean(no_leaks):
    with tempfile.TemporaryFile(), open(__file__):
        subprocess.run([sys.executable, "-c", ""], check=True)

async def test_clean_async(no_leaks):
    await asyncio.create_task(asyncio.to_thread(len, ""))

@pytest.mark.usefixtures("no_leaks")
class TestClean:
    async def test_clean_method(self):
        await asyncio.sleep(0)

async def test_clean_kernel(no_leaks):
    async with agentos.open("memory:") as kernel:
        no_leaks.watch(kernel)

def test_clean_of_what_is_wide(no_leaks, wide): pass
def test_clean_of_what_is_tidy(no_leaks, tidy): pass

async def test_leaves_task(no_leaks):
    kept.append(asyncio.create_task(asyncio.Event().wait(), name="forgotten task"))

def test_leaves_thread(no_leaks):
    kept.append(threading.Thread(target=threading.Event().wait, name="forgotten thread", daemon=True))
    kept[-1].start()

def test_leaves_temporary(no_leaks):
    os.close(tempfile.mkstemp(suffix="-forgotten")[0])

def test_leaves_file(no_leaks):
    kept.append(open(__file__))

def test_leaves_file_of_a_fixture(no_leaks, messy): pass

async def test_fails_by_itself(no_leaks):
    file = open(__file__)
    kept.append(asyncio.create_task(asyncio.Event().wait()))
    assert file.closed, "its own failure"

ANY_TIME = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)

@settings(ANY_TIME, max_examples=3, derandomize=True, database=None)
@given(leaks=strategies.just(True))
async def test_leaves_task_in_an_example(no_leaks, leaks):
    kept.append(asyncio.create_task(asyncio.Event().wait(), name="left by an example"))
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What pytest says of these tests; nothing of this project's own settings is in force."""
    folder = tmp_path_factory.mktemp("theirs")
    (folder / "pytest.ini").write_text("[pytest]\nanyio_mode = auto\n")
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_theirs.py").write_text(TESTS)
    words = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "-rA", "--tb=short"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "COLUMNS": "200"}
    environment.pop("PYTEST_ADDOPTS", None)
    ended = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=600, check=False)
    return ended.stdout + ended.stderr


@pytest.mark.parametrize(
    "name",
    [
        "test_clean",
        "test_clean_async",
        "TestClean::test_clean_method",
        "test_clean_kernel",
        "test_clean_of_what_is_wide",
        "test_clean_of_what_is_tidy",
    ],
)
def test_a_test_that_cleans_up_passes(said: str, name: str) -> None:
    assert f"PASSED test_theirs.py::{name}\n" in said, said
    assert f"ERROR test_theirs.py::{name} " not in said


def test_a_task_fails_the_test_itself_by_name(said: str) -> None:
    assert "FAILED test_theirs.py::test_leaves_task - " in said, said
    assert "task: forgotten task, Event.wait" in said


def test_every_example_of_hypothesis_is_looked_at(said: str) -> None:
    assert "FAILED test_theirs.py::test_leaves_task_in_an_example - " in said, said
    assert "task: left by an example" in said


def test_a_thread_is_an_error_at_the_end_of_its_test(said: str) -> None:
    assert "ERROR test_theirs.py::test_leaves_thread - " in said, said
    assert "thread: forgotten thread, in " in said


def test_a_temporary_file_is_an_error_at_the_end_of_its_test(said: str) -> None:
    assert "ERROR test_theirs.py::test_leaves_temporary - " in said, said
    assert "-forgotten" in said.partition("temporary: ")[2].partition("\n")[0]


@linux
@pytest.mark.parametrize("name", ["test_leaves_file", "test_leaves_file_of_a_fixture"])
def test_a_descriptor_is_an_error_also_one_of_a_fixture_that_came_after(said: str, name: str) -> None:
    assert f"ERROR test_theirs.py::{name} - " in said, said
    assert said.count("file: ") >= 2


def test_a_test_that_fails_says_only_why_it_failed(said: str) -> None:
    assert "FAILED test_theirs.py::test_fails_by_itself - AssertionError: its own failure" in said, said
    assert "ERROR test_theirs.py::test_fails_by_itself" not in said
