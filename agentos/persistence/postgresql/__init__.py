"""The PostgreSQL adapter; `store` is where to begin."""

from agentos.persistence.postgresql.address import Address
from agentos.persistence.postgresql.store import PostgreSQLStore

__all__ = ["Address", "PostgreSQLStore"]
