"""What the errors of PostgreSQL and of its driver mean for a store. None of our words repeats a row or a password."""

from __future__ import annotations

from enum import Enum, auto
from socket import gaierror

import asyncpg

from agentos.errors import StoreBusy, StoreDamaged, StoreError, StoreUnavailable


class Fault(Enum):
    """What can be done about an error.

    LOST: there is no connection, or it has to go; what was under way may or may not have been done.
    AGAIN: the transaction was rolled back because of what others did at the same time; it may well pass now.
    FINAL: the same would come again.
    """

    LOST = auto()
    AGAIN = auto()
    FINAL = auto()


NO_ROOM = (asyncpg.TooManyConnectionsError, asyncpg.CannotConnectNowError)
"""A server that is there and takes no connection now."""
_SHUTDOWN = (
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.IdleSessionTimeoutError,
    asyncpg.TransactionTimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.ReadOnlySQLTransactionError,  # a standby, or a primary that became one
)
_COLLISIONS = (asyncpg.SerializationError, asyncpg.DeadlockDetectedError, asyncpg.UniqueViolationError)
_DAMAGE = (
    asyncpg.IntegrityConstraintViolationError,
    asyncpg.DataCorruptedError,
    asyncpg.IndexCorruptedError,
    asyncpg.UndefinedTableError,
    asyncpg.UndefinedColumnError,
)
_DRIVER = (asyncpg.InterfaceError, asyncpg.InternalClientError)

STORE_FAULTS = (asyncpg.PostgresError, *_DRIVER, OSError)
"""All that the driver raises for what is not the caller's mistake."""


def fault_of(error: BaseException) -> Fault:
    """For an error of STORE_FAULTS."""
    if isinstance(error, _COLLISIONS):
        return Fault.AGAIN
    if isinstance(error, ValueError):  # of the driver: what it was given has no form, or the URL says what it cannot do
        return Fault.FINAL
    return Fault.LOST if isinstance(error, (*NO_ROOM, *_SHUTDOWN, *_DRIVER, OSError)) else Fault.FINAL


def store_error(url: str, error: BaseException) -> StoreError:
    """Our word for an error; it names the store, the cause and, where there is one, the limit.

    The error loses its detail and context, which repeat values of rows: it is told along with ours.
    """
    if isinstance(error, StoreError):
        return error
    if isinstance(error, asyncpg.PostgresError):
        error.detail = error.context = None
    if isinstance(error, asyncpg.LockNotAvailableError):
        return StoreBusy(url, f"another session held a lock for too long ({_said(error)}; lock_timeout)")
    if isinstance(error, _COLLISIONS[:2]):
        return StoreBusy(url, f"other sessions collided with this one again and again ({_said(error)})")
    if isinstance(error, _DAMAGE):
        return StoreDamaged(url, _said(error))
    return StoreUnavailable(url, _reason(error))


def _reason(error: BaseException) -> str:
    if isinstance(error, asyncpg.TooManyConnectionsError):
        return f"the server has no connection left for this one ({_said(error)}; max_connections)"
    if isinstance(error, asyncpg.CannotConnectNowError):
        return f"the server is not ready ({_said(error)})"
    if isinstance(error, asyncpg.QueryCanceledError):
        return f"the server stopped a statement of it ({_said(error)}; statement_timeout)"
    if isinstance(error, asyncpg.ReadOnlySQLTransactionError):
        return (
            f"the server takes no writes from here: a standby, or default_transaction_read_only is on ({_said(error)})"
        )
    if isinstance(error, asyncpg.DiskFullError):
        return f"the disk of the server is full ({_said(error)}); nothing was stored"
    if isinstance(error, asyncpg.PostgresError):
        return _said(error)
    if isinstance(error, TimeoutError):
        return "the server does not answer"
    if isinstance(error, ConnectionRefusedError | FileNotFoundError):
        return "no server answers there; is it running?"
    if isinstance(error, gaierror):
        return f"the host is not known ({error.strerror})"
    if isinstance(error, ValueError):
        return str(error)
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _said(error: BaseException) -> str:
    """The server's sentence and code."""
    code = getattr(error, "sqlstate", None)
    sentence = str(error.args[0]) if error.args else type(error).__name__
    return f"{sentence} ({code})" if code else sentence
