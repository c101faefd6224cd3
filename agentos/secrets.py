"""Secrets: named by references, resolved when they are needed, shown nowhere.

    env:NAME       a variable of the environment
    file:PATH      the content of a file, without the line break at its end
    command:ARGV   what a program prints, run without a shell, within COMMAND_S
    key:ID         an entry of a key file: {"keys": [{"id": "...", "value": "..."}]}

Only a reference is ever stored, printed or named in an error; a value lives in a `Secret`, which no repr, str, format,
copy or encoder gives away.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shlex
import signal
import stat
import subprocess
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

import msgspec

from agentos.errors import ConfigurationError

COMMAND_S = 10.0
SECRET_BYTES_MAX = 64 * 1024
KEY_FILE_BYTES_MAX = 4 * 1024 * 1024
HIDDEN = "***"

_REFERENCE = re.compile(r"(env|file|command|key):(\S.*)", re.DOTALL)
_PASSWORD = re.compile(r"(\w://[^:/?#]*|^\s*postgres[\w+.-]*\s*[:/]+[^:/?#@]*):.*@", re.DOTALL | re.IGNORECASE)
"""In a URL, and in what was to be that of a PostgreSQL store."""
_PASSWORD_OPTION = re.compile(r"([?&])(?:ssl)?password=[^&#]*&?", re.IGNORECASE)
_HEADER_VALUE = re.compile(r"[\x21-\x7e]+(?:[ \t]+[\x21-\x7e]+)*")


class KeyUnknown(ConfigurationError):
    """No key file has this id; where a server asks for no key, that is no error."""

    def __init__(self, id_: str, looked_in: Sequence[Path]) -> None:
        self.id, self.looked_in = id_, looked_in
        where = ", ".join(map(str, looked_in)) or "no file: none exists at the places that are looked at"
        super().__init__(f"no key {id_!r} in {where}; add it there as {{'id': {id_!r}, 'value': ...}}")


class Secret:
    """A value that nobody sees by accident; `reveal` is the one way to it."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def hidden_in(self, text: str) -> str:
        """The text with every occurrence of the value covered; a value of under four characters says nothing."""
        return text.replace(self._value, HIDDEN) if len(self._value) >= 4 else text

    def __repr__(self) -> str:
        return f"Secret({HIDDEN})"

    def __str__(self) -> str:
        return HIDDEN

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    __hash__ = None  # type: ignore[assignment]

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a Secret is neither copied nor written")


class _Key(msgspec.Struct):
    id: str
    value: str


class _KeyFile(msgspec.Struct):
    keys: list[_Key]


class KeyFiles:
    """Key files in the order in which they are asked; one that is not there is passed over."""

    def __init__(self, paths: Iterable[Path] = ()) -> None:
        self.paths = tuple(paths)

    def with_defaults(self) -> KeyFiles:
        """Followed by the key files of this user: that of agentos, then that of agents-exe."""
        return KeyFiles((*self.paths, *default_key_files()))

    def find(self, id_: str) -> Secret:
        """Raises KeyUnknown, and ConfigurationError for a file that is none; neither tells anything of its content."""
        looked_in = [path for path in self.paths if path.exists()]
        for path in looked_in:
            for key in _read(path).keys:
                if key.id == id_:
                    return Secret(key.value)
        raise KeyUnknown(id_, looked_in or self.paths)


def default_key_files() -> tuple[Path, ...]:
    """None for a user without a home."""
    import platformdirs

    try:
        home = Path.home()
    except RuntimeError:
        return ()
    ours = Path(platformdirs.user_config_dir("agentos")) / "keys.json"
    return ours, home / ".config" / "agents-exe" / "secret-keys"


def is_reference(text: str) -> bool:
    return bool(_REFERENCE.fullmatch(text))


def check_reference(text: object, place: str) -> str:
    """The reference, if it is one. Raises ConfigurationError, which does not show what stands there instead."""
    if isinstance(text, str) and is_reference(text):
        return text
    raise ConfigurationError(
        f"{place}: a reference to a secret is needed: env:NAME, file:PATH, command:PROGRAM or key:ID; "
        "what stands there is not shown, since it may be the secret itself"
    )


def resolve_secret(
    reference: str,
    *,
    base: Path | None = None,
    keys: KeyFiles | None = None,
    environ: Mapping[str, str] | None = None,
) -> Secret:
    """The secret that a reference names; relative paths count from base. It may wait, COMMAND_S at most.

    Errors: ConfigurationError naming the reference and what is wrong with the place, never the value; KeyUnknown.
    """
    found = _REFERENCE.fullmatch(reference)
    if found is None:
        check_reference(reference, "secret")
        raise AssertionError("check_reference refuses what is no reference")
    kind, name = found[1], found[2].strip()
    if kind == "key":
        return _checked(reference, (keys or KeyFiles()).find(name))
    if kind == "env":
        return _checked(reference, _from_environment(name, os.environ if environ is None else environ))
    return _checked(reference, _OUTSIDE[kind](reference, name, base or Path()))


def _checked(reference: str, secret: Secret) -> Secret:
    """Secrets travel in headers: what no header may carry is told here, where the value stays out of the error."""
    value = secret.reveal()
    if not value:
        raise ConfigurationError(f"{reference}: the secret there is empty")
    if len(value) > SECRET_BYTES_MAX:
        raise ConfigurationError(f"{reference}: the secret there is longer than {SECRET_BYTES_MAX:,} bytes")
    if not _HEADER_VALUE.fullmatch(value):
        raise ConfigurationError(f"{reference}: the secret there holds a line break or a character that is not ASCII")
    return secret


def _from_environment(name: str, environ: Mapping[str, str]) -> Secret:
    value = environ.get(name)
    if value is None:
        raise ConfigurationError(f"env:{name}: the environment has no variable {name}")
    return Secret(value.strip())


def _from_file(reference: str, name: str, base: Path) -> Secret:
    try:
        return Secret(_content(base / Path(name).expanduser(), SECRET_BYTES_MAX).decode().strip())
    except OSError as error:
        raise ConfigurationError(f"{reference}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        # Not "from error", here and below: such an error holds the bytes.
        raise ConfigurationError(f"{reference}: the file is not UTF-8") from None


def _from_command(reference: str, command: str, base: Path) -> Secret:
    try:
        argv = shlex.split(command)
        printed, code = _output_of(argv, base)
    except ValueError as error:
        raise ConfigurationError(f"{reference}: {error}") from None
    except OSError as error:
        raise ConfigurationError(f"{reference}: cannot be run: {error.strerror}") from error
    if code is None:
        raise ConfigurationError(f"{reference}: did not end within {COMMAND_S:g} s")
    if code != 0:
        raise ConfigurationError(f"{reference}: ended with code {code}")
    try:
        return Secret(printed.decode().strip())
    except UnicodeDecodeError:
        raise ConfigurationError(f"{reference}: what it printed is not UTF-8") from None


def _output_of(argv: Sequence[str], base: Path) -> tuple[bytes, int | None]:
    """What a program prints and its exit code, None when it was stopped. What it left running after it ended, an agent of
    its own say, goes on."""
    process = subprocess.Popen(
        argv,
        cwd=base,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert process.stdout is not None
    timed_out = threading.Event()

    def stop() -> None:
        timed_out.set()
        _kill(process)

    timer = threading.Timer(COMMAND_S, stop)
    timer.start()
    try:
        with process.stdout as pipe:
            printed = pipe.read(SECRET_BYTES_MAX + 1)
            if len(printed) > SECRET_BYTES_MAX:
                raise ValueError(f"it prints more than {SECRET_BYTES_MAX:,} bytes")
        code = process.wait()
    finally:
        timer.cancel()
        if process.poll() is None:
            _kill(process)
    return printed, None if timed_out.is_set() else code


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


_OUTSIDE: dict[str, Callable[[str, str, Path], Secret]] = {"file": _from_file, "command": _from_command}


def _read(path: Path) -> _KeyFile:
    try:
        return msgspec.json.decode(_content(path, KEY_FILE_BYTES_MAX), type=_KeyFile)
    except OSError as error:
        raise ConfigurationError(f"key file {path}: cannot be read: {error.strerror}") from error
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"key file {path}: {error}; its form is {_FORM}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ConfigurationError(f"key file {path}: is no JSON; its form is {_FORM}") from None


_FORM = '{"keys": [{"id": "...", "value": "..."}]}'


def _content(path: Path, bytes_max: int) -> bytes:
    """Of a regular file, since a pipe may never end. Raises OSError, also for one that is longer than it may be."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file")
    with path.open("rb") as file:
        content = file.read(bytes_max + 1)
    if len(content) > bytes_max:
        raise OSError(errno.EFBIG, f"it has more than {bytes_max:,} bytes")
    return content


def without_password(url: str) -> str:
    """The URL of a store as it may be shown: without a password, as part of the account and as an option."""
    return _PASSWORD_OPTION.sub(r"\1", _PASSWORD.sub(r"\1@", url)).rstrip("?&")
