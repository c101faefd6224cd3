"""S17: no SQL of ours is put together from text that came from outside.

Ruff's S608 looks for text that reads like a query (SELECT, INSERT, ...) wherever it stands; it does not see PRAGMA,
CREATE or SET, nor a statement whose words come in by a variable. So each call that takes SQL is looked at here: what it
gets has to be made of constants of its module and of numbers (`:d`), be a name that was not put together in the same
function, or stand in REVIEWED.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import agentos

PACKAGE = Path(agentos.__file__).parent
TAKES_SQL = frozenset(
    {
        "_execute", "_fetch", "_many", "copy_from_query", "cursor", "exec_driver_sql", "execute", "execute_fetchall",
        "executemany", "executescript", "fetch", "fetchmany", "fetchrow", "fetchval", "prepare", "query", "text",
    }
)  # fmt: skip
JOINS = frozenset({"format", "format_map", "join", "replace"})

REVIEWED = {
    ("persistence/postgresql/founding.py", "f'create schema \"{schema}\"'"): "a name that address.py checked",
    ("resources/kinds/sqlite_connection/link.py", "f'PRAGMA busy_timeout={round(limits.busy_s * 1000)}'"): "a number",
    (
        "resources/kinds/sqlite_connection/link.py",
        "f'PRAGMA max_page_count={max(1, limits.database_bytes // page_bytes)}'",
    ): "a number",
    ("testing/query_contract.py", "rows.format(CONTRACT_SETTINGS.query_rows_max + 1)"): "a number",
    ("testing/query_contract.py", "rows.format(CONTRACT_SETTINGS.query_rows_max)"): "a number",
}
"""What is put together all the same, and why it may be."""
EXEMPT = {
    "history/past/processes.py": "names of columns",
    "kernel/listing.py": "conditions and sort orders of its own words; what a person filters by is bound",
    "persistence/sqlite/shape.py": "names of the packaged schema",
}
"""Files that tell ruff to look away."""


def findings(source: str, place: str) -> list[tuple[str, str]]:
    """The place, and the SQL that is put together there."""
    tree = ast.parse(source)
    constants = _constants(tree)
    found: set[tuple[str, str]] = set()
    for scope in (node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))):
        joined = _joined_names(scope, constants)
        for sql in _sql_arguments(scope):
            if _is_joined(sql, constants) or (isinstance(sql, ast.Name) and sql.id in joined):
                found.add((place, ast.unparse(sql)))
    return sorted(found)


def _constants(tree: ast.Module) -> set[str]:
    """Names of the module that are made of nothing but constants."""
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.Assign) and not _is_joined(node.value, names):
            names.update(target.id for target in node.targets if isinstance(target, ast.Name))
    return names


def _sql_arguments(scope: ast.AST) -> Iterator[ast.expr]:
    for node in ast.walk(scope):
        if isinstance(node, ast.Call) and _name(node.func) in TAKES_SQL:
            yield from node.args[:1]
            yield from (keyword.value for keyword in node.keywords if keyword.arg in ("sql", "query", "statement"))


def _joined_names(scope: ast.AST, constants: set[str]) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(scope):
        if isinstance(node, ast.Assign) and _is_joined(node.value, constants):
            names.update(target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return names


def _is_joined(node: ast.expr, constants: set[str]) -> bool:
    """Whether a text is put together here, and of more than constants."""
    if isinstance(node, ast.JoinedStr):
        parts: list[ast.expr] = [
            part.value for part in node.values if isinstance(part, ast.FormattedValue) and not _is_number(part)
        ]
    elif isinstance(node, ast.BinOp):
        parts = [node.left, node.right]
    elif isinstance(node, ast.IfExp):
        return _is_joined(node.body, constants) or _is_joined(node.orelse, constants)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in JOINS:
        parts = [node.func.value, *node.args]
    else:
        return False
    return not all(_is_constant(part, constants) for part in parts)


def _is_constant(node: ast.expr, constants: set[str]) -> bool:
    if isinstance(node, ast.Call) and not (isinstance(node.func, ast.Attribute) and node.func.attr in JOINS):
        return False
    if isinstance(node, (ast.JoinedStr, ast.BinOp, ast.Call)):
        return not _is_joined(node, constants)
    return isinstance(node, ast.Constant) or (isinstance(node, ast.Name) and node.id in constants)


def _is_number(part: ast.FormattedValue) -> bool:
    """`:d` refuses all else."""
    return part.format_spec is not None and ast.unparse(part.format_spec) == "f'd'"


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def test_every_statement_that_is_put_together_was_reviewed() -> None:
    found = [
        finding
        for file in sorted(PACKAGE.rglob("*.py"))
        for finding in findings(file.read_text("utf-8"), str(file.relative_to(PACKAGE)))
    ]

    assert found == sorted(REVIEWED)


@pytest.mark.parametrize(
    "call",
    [
        "db.execute(f'select * from {table}')",
        "db.execute(f'pragma x = {read()}')",
        "db.execute('pragma user_version = ' + version)",
        "db.execute('select %s' % name)",
        "db.executescript('attach {} as x'.format(path))",
        "db.execute(sql=f'{words} x')",
        "await db.execute_fetchall(' '.join(parts))",
        "cursor.execute(f'set x = {number}')",
        "sql = f'select {name}'; connection.fetch(sql)",
        "sql = 'select 1'; sql += where; connection.fetchrow(sql)",
        "store.query(START + where if where else START)",
        "db.execute(START.replace('x', name))",
    ],
)
def test_a_statement_that_is_put_together_is_found(call: str) -> None:
    source = f"START = 'select x'\nasync def f():\n    {call.replace('; ', chr(10) + '    ')}\n"

    assert len(findings(source, "place")) == 1


@pytest.mark.parametrize(
    "call",
    [
        "db.execute('select ?', (name,))",
        "db.execute(START + END)",
        "db.execute(START)",
        "db.execute(f'pragma x = {number:d}')",
        "db.execute(f'{START} order by 1')",
        "db.execute(WHOLE if name else START)",
        "find(f'{name}')",
    ],
)
def test_a_statement_of_constants_is_none_of_them(call: str) -> None:
    source = f"START = 'select x'\nEND = ' from y'\nWHOLE = START.replace('x', 'z') + END\nasync def f():\n    {call}\n"

    assert findings(source, "place") == []


def test_ruff_looks_for_queries_that_are_put_together_too() -> None:
    project = tomllib.loads(Path(__file__).parents[2].joinpath("pyproject.toml").read_text("utf-8"))
    exempt = {str(file.relative_to(PACKAGE)) for file in PACKAGE.rglob("*.py") if "S608" in file.read_text("utf-8")}

    assert "S608" in project["tool"]["ruff"]["lint"]["select"]
    assert exempt == EXEMPT.keys()
