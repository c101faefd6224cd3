"""Secrets are found where their references say, and shown nowhere."""

from __future__ import annotations

import copy
import pickle  # noqa: TID251 - to see that it is refused
import sys
import traceback
from pathlib import Path

import msgspec
import pytest

from agentos import secrets
from agentos.errors import ConfigurationError
from agentos.secrets import KeyFiles, KeyUnknown, Secret, check_reference, default_key_files, resolve_secret
from tests.support import key_file

CANARY = "sk-canary-5f1e7a"


def python(program: str) -> str:
    return f"command:{sys.executable} -c '{program}'"


def test_a_secret_is_shown_by_nothing_but_reveal() -> None:
    secret = Secret(CANARY)

    shown = [repr(secret), str(secret), f"{secret}", f"{secret!r:>40}", repr({"key": [secret]})]

    assert secret.reveal() == CANARY
    assert [text for text in shown if CANARY in text] == []
    assert repr(secret) == "Secret(***)"


@pytest.mark.parametrize("write", [copy.copy, copy.deepcopy, pickle.dumps, msgspec.json.encode, msgspec.to_builtins])
def test_a_secret_is_neither_copied_nor_written(write: object) -> None:
    assert callable(write)

    with pytest.raises(TypeError) as raised:
        write(Secret(CANARY))

    assert CANARY not in str(raised.value)


def test_a_secret_is_covered_in_foreign_words() -> None:
    assert Secret(CANARY).hidden_in(f"bad key {CANARY}, {CANARY}!") == "bad key ***, ***!"
    assert Secret("a").hidden_in("banana") == "banana"


def test_env_reads_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", f" {CANARY}\n")

    assert resolve_secret("env:SOME_KEY").reveal() == CANARY
    assert resolve_secret("env:OTHER", environ={"OTHER": "given"}).reveal() == "given"


def test_file_counts_from_base_and_loses_its_line_break(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(f"{CANARY}\r\n")

    assert resolve_secret("file:key", base=tmp_path).reveal() == CANARY
    assert resolve_secret(f"file:{tmp_path / 'key'}", base=Path("/elsewhere")).reveal() == CANARY


def test_command_is_run_without_a_shell(tmp_path: Path) -> None:
    program = 'import sys, os; print("-".join(sys.argv[1:]), os.getcwd())'

    printed = resolve_secret(f"{python(program)} $HOME \"a b\" '*'", base=tmp_path).reveal()

    assert printed == f"$HOME-a b-* {tmp_path.resolve()}"


def test_a_command_that_hangs_is_ended_with_all_that_it_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "COMMAND_S", 0.3)
    program = 'import subprocess, sys; subprocess.run([sys.executable, "-c", "import time; time.sleep(1e6)"])'

    with pytest.raises(ConfigurationError, match=r"did not end within 0\.3 s"):
        resolve_secret(python(program))


def test_a_command_that_prints_without_end_is_stopped() -> None:
    with pytest.raises(ConfigurationError, match="prints more than 65,536 bytes"):
        resolve_secret(python('while True: print("x" * 4096)'))


def test_the_first_key_file_that_has_the_id_counts(tmp_path: Path) -> None:
    first = key_file(tmp_path / "first", openai="one")
    second = key_file(tmp_path / "second", openai="two", kimi="three")
    keys = KeyFiles([tmp_path / "missing", first, second])

    assert resolve_secret("key:openai", keys=keys).reveal() == "one"
    assert resolve_secret("key:kimi", keys=keys).reveal() == "three"


def test_a_key_that_no_file_has_names_the_files_that_were_read(tmp_path: Path) -> None:
    keys = KeyFiles([tmp_path / "missing", key_file(tmp_path / "there", other=CANARY)])

    with pytest.raises(KeyUnknown) as raised:
        resolve_secret("key:openai", keys=keys)

    assert "no key 'openai' in" in str(raised.value)
    assert str(tmp_path / "there") in str(raised.value)
    assert raised.value.looked_in == [tmp_path / "there"]
    assert CANARY not in str(raised.value)


def test_the_files_of_this_user_come_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    earlier = tmp_path / ".config" / "agents-exe" / "secret-keys"
    earlier.parent.mkdir(parents=True)
    key_file(earlier, kimi="from the earlier system")

    keys = KeyFiles([tmp_path / "given"]).with_defaults()

    assert keys.paths == (tmp_path / "given", *default_key_files())
    assert resolve_secret("key:kimi", keys=keys).reveal() == "from the earlier system"


@pytest.mark.parametrize(
    ("reference", "why"),
    [
        ("env:AGENTOS_NO_SUCH", "the environment has no variable AGENTOS_NO_SUCH"),
        ("file:nothing-here", "file:nothing-here: cannot be read: No such file"),
        ("file:.", r"file:\.: cannot be read: it is not a regular file"),
        ("file:binary", "file:binary: the file is not UTF-8"),
        ("file:empty", "file:empty: the secret there is empty"),
        ("file:lines", "holds a line break or a character that is not ASCII"),
        ("file:large", r"cannot be read: it has more than 65,536 bytes"),
        ("command:no-such-program-here", "cannot be run: No such file"),
        ("command:echo 'x", "No closing quotation"),
        (python("raise SystemExit(3)"), "ended with code 3"),
        (python('import sys; sys.stdout.buffer.write(b"\\xff")'), "what it printed is not UTF-8"),
        ("env:", "a reference to a secret is needed"),
        (CANARY, "a reference to a secret is needed"),
    ],
)
def test_what_cannot_be_had_names_its_place_and_no_value(tmp_path: Path, reference: str, why: str) -> None:
    (tmp_path / "binary").write_bytes(CANARY.encode() + b"\xff")
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "lines").write_text(f"{CANARY}\r\nX-Injected: 1")
    (tmp_path / "large").write_text(CANARY * 10_000)

    with pytest.raises(ConfigurationError, match=why) as raised:
        resolve_secret(reference, base=tmp_path)

    assert CANARY not in "".join(traceback.format_exception(raised.value))


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (f'{{"openai": "{CANARY}"}}', "missing required field `keys`"),
        (f'{{"keys": [{{"id": "openai", "value": ["{CANARY}"]}}]}}', r"Expected `str`, got `array` - at `\$.keys\[0\]"),
        (f'{{"keys": [{{"id": "openai", "value": "{CANARY}"', "is no JSON"),
        ('{"x": ' + "[" * 100_000, "is no JSON|recursion"),
    ],
)
def test_a_key_file_of_another_form_is_named_with_the_right_form(tmp_path: Path, content: str, why: str) -> None:
    path = tmp_path / "keys.json"
    path.write_text(content)

    with pytest.raises(ConfigurationError, match=why) as raised:
        resolve_secret("key:openai", keys=KeyFiles([path]))

    assert str(path) in str(raised.value)
    assert '{"keys": [{"id": "...", "value": "..."}]}' in str(raised.value)
    assert CANARY not in "".join(traceback.format_exception(raised.value))


def test_what_is_no_reference_is_refused_without_being_shown() -> None:
    assert check_reference("key:openai", "x.yaml:3:5") == "key:openai"

    for wrong in (CANARY, "", "key:", "vault:openai", 7, None):
        with pytest.raises(ConfigurationError, match=r"x\.yaml:3:5: a reference to a secret") as raised:
            check_reference(wrong, "x.yaml:3:5")
        assert CANARY not in str(raised.value)
