"""What a system toolbox tells of the machine and of this process: facts, read at the moment of the call.

Environment variables: without a filter only their names. With one, those whose names contain it, with their values; a
value is masked when its variable has the name of a secret, when it holds the value of such a variable, or when it is
an address with a password in it.
"""

from __future__ import annotations

import datetime
import os
import platform
import pwd
import re
import resource
import socket
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

from agentos.clock import Clock

MASK = "(masked)"
VALUE_CHARS_MAX = 2_000
_SECRET_NAME = re.compile(
    r"KEY|TOKEN|SECRET|PASS|_PWD|CREDENTIAL|AUTH|COOKIE|PRIVATE|SIGNATURE|BEARER|DSN|WEBHOOK|CONNECTION_STRING",
    re.IGNORECASE,
)
_ADDRESS_WITH_PASSWORD = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/\s@]*:[^/\s@]*@")
_SECRET_CHARS_MIN = 6
"""A shorter value of a secret is too likely to stand elsewhere by chance."""


def date(clock: Clock) -> dict[str, Any]:
    now = datetime.datetime.fromtimestamp(clock.now() / 1e6, datetime.UTC)
    local = now.astimezone()
    return {
        "utc": now.isoformat(timespec="seconds"),
        "local": local.isoformat(timespec="seconds"),
        "zone": local.tzname(),
        "weekday": local.strftime("%A"),
    }


def operating_system() -> dict[str, Any]:
    return {
        "system": platform.system(),
        "release": platform.release(),
        "machine": platform.machine(),
        "distribution": _distribution(),
        "python": platform.python_version(),
    }


def environment(name_filter: str | None, variables: Mapping[str, str]) -> dict[str, Any]:
    """Names alone without a filter; with one, those that contain it, in any case of letters, and their values."""
    if name_filter is None:
        return {"names": sorted(variables), "note": "values are shown only of names that the toolbox's filter contains"}
    secrets = [v for name, v in variables.items() if _SECRET_NAME.search(name) and len(v) >= _SECRET_CHARS_MIN]
    wanted = sorted(name for name in variables if name_filter.casefold() in name.casefold())
    return {"variables": {name: _shown(name, variables[name], secrets) for name in wanted}}


def running_user() -> dict[str, Any]:
    user, group = os.geteuid(), os.getegid()
    try:
        found = pwd.getpwuid(user)
    except KeyError:  # a user of a container, known by number alone
        return {"name": None, "uid": user, "gid": group, "home": os.environ.get("HOME")}
    return {"name": found.pw_name, "uid": user, "gid": group, "home": found.pw_dir}


def hostname() -> str:
    return socket.gethostname()


def process_info() -> dict[str, Any]:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    unit_bytes = 1 if sys.platform == "darwin" else 1024
    return {
        "pid": os.getpid(),
        "parent_pid": os.getppid(),
        "threads": threading.active_count(),
        "cpu_s": round(usage.ru_utime + usage.ru_stime, 3),
        "peak_memory_bytes": usage.ru_maxrss * unit_bytes,
        "python": platform.python_version(),
    }


def uptime(process_s: float) -> dict[str, Any]:
    """Seconds since the machine began, where it tells, and since the toolbox was opened."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    machine_s = None if boot is None else round(time.clock_gettime(boot))
    return {"machine_s": machine_s, "toolbox_s": round(process_s, 3)}


def _distribution() -> str | None:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME")
    except OSError:
        return None


def _shown(name: str, value: str, secrets: list[str]) -> str:
    hidden = _SECRET_NAME.search(name) or _ADDRESS_WITH_PASSWORD.search(value)
    if hidden or any(secret in value for secret in secrets):
        return MASK
    return value if len(value) <= VALUE_CHARS_MAX else f"{value[:VALUE_CHARS_MAX]} [... {len(value):,} characters]"
