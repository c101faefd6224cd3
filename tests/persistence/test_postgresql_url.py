"""What the URL of a store in PostgreSQL may say, and that nothing of ours repeats its password."""

from __future__ import annotations

import subprocess
import sys

import pytest

from agentos.errors import ConfigurationError
from agentos.persistence import open_store
from agentos.persistence.base import Durability
from agentos.persistence.postgresql import Address, PostgreSQLStore

SECRET = "s3cret-word"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (f"postgresql://user:{SECRET}@host:5433/db", "postgresql://user@host:5433/db"),
        (f"postgres://user:{SECRET}@host/db?schema=mine", "postgresql://user@host/db?schema=mine"),
        (f"postgresql://:{SECRET}@host/db", "postgresql://@host/db"),
        (f"postgresql://user@host/db?password={SECRET}&sslmode=require", "postgresql://user@host/db?sslmode=require"),
        (f"postgresql://user@host/db?sslkey=/k&sslpassword={SECRET}", "postgresql://user@host/db?sslkey=/k"),
        (f"postgresql://user:{SECRET}@[::1]:5433/db", "postgresql://user@[::1]:5433/db"),
        (f"postgresql://user:{SECRET}@one:1,two:2/db", "postgresql://user@one:1,two:2/db"),
        ("postgresql:///db?host=/run/postgresql", "postgresql:///db?host=/run/postgresql"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, shown: str) -> None:
    store = open_store(url)
    address = Address(url)

    assert isinstance(store, PostgreSQLStore)
    assert store.url == address.url == shown
    assert (SECRET in url) == (SECRET in address.dsn)
    assert SECRET not in repr(store) + repr(vars(store)) + repr(address)


def test_schema_and_durability_are_ours_and_the_rest_is_the_drivers() -> None:
    plain, chosen = (
        Address("postgresql://host/db"),
        Address("postgresql://host/db?schema=a_1&durability=relaxed&host=/x"),
    )

    assert (plain.schema, plain.durability, plain.database) == ("agentos", Durability.FULL, "db")
    assert (chosen.schema, chosen.durability, chosen.dsn) == (
        "a_1",
        Durability.RELAXED,
        "postgresql://host/db?host=%2Fx",
    )
    assert PostgreSQLStore("postgresql://host/db", durability=Durability.NORMAL).durability is Durability.NORMAL
    assert (plain.application, Address("postgresql://host/db?application_name=mine").application) == ("agentos", "mine")


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("postgresql://host", "the database is missing"),
        ("postgresql://host/", "the database is missing"),
        ("postgresql:", "two slashes come before"),
        (f"postgresql:user:{SECRET}@host/db", "two slashes come before"),
        (f"postgres:/user:{SECRET}@host/db", "two slashes come before"),
        (f"postgresql:///user:{SECRET}@host/db", "written %2F"),
        (f"postgresql://user:{SECRET}@[host/db", "an address in brackets is not closed"),
        (f"postgresql://host/db?PASSWORD={SECRET}", "no option 'PASSWORD'"),
        (f"POSTGRESQL:/user:{SECRET}@host/db", "no such kind of store"),
        ("postgresql://host/db?schema=Upper", "'Upper' is no name of a schema"),
        ("postgresql://host/db?schema=a;drop", "is no name of a schema"),
        ("postgresql://host/db?schema=" + "a" * 49, "at most 48"),
        ("postgresql://host/db?durability=high", "no durability 'high'; there are full, normal, relaxed"),
        ("postgresql://host/db?shema=x", "no option 'shema'; there are schema, durability"),
        ("postgresql://host:many/db", "a port is a number"),
        ("postgresql://host:65536/db", "a port is a number up to 65535"),
        ("postgresql://host/db?host=/x&port=many", "a port is a number"),
        ("postgresql://host/db#part", "nothing follows a '#'"),
        (f"postgresql://user:{SECRET}/x@host/db", "written %2F"),
        (f"postgresql://user:12/{SECRET}@host/db", "written %2F"),
        (f"postgresql://user:12?{SECRET}@host/db", "written %2F"),
        (f"postgresql://user:12#{SECRET}@host/db", "written %2F"),
        (f"postgresql://user:{SECRET}@host/db?application_name=a@b", "written %2F"),
        (f"postgresql+asyncpg://user:{SECRET}@host/db", "no such kind of store"),
    ],
)
def test_a_url_that_says_something_else_is_refused_without_its_password(url: str, reason: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        open_store(url)

    assert reason in str(refused.value)
    assert "postgresql://USER[:PASSWORD]@HOST[:PORT]/DATABASE" in str(refused.value)
    assert SECRET not in str(refused.value)


def test_the_driver_is_imported_for_such_a_url_alone() -> None:
    script = (
        "import sys; from agentos.persistence import open_store; open_store('memory:'); assert 'asyncpg' not in sys.modules;"
        "open_store('postgresql://host/db'); assert 'asyncpg' in sys.modules; assert 'sqlalchemy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
