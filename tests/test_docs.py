"""The documentation says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

from agentos.testing.entry_table import page

ROOT = Path(__file__).parent.parent


def test_the_page_of_entry_kinds_is_the_table_that_the_code_uses() -> None:
    assert (ROOT / "docs" / "entries.md").read_text() == page()


def test_every_link_between_pages_leads_somewhere() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

    broken = [
        f"{page_.relative_to(ROOT)}: {target}"
        for page_ in pages
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page_.read_text())
        if "://" not in target and not (page_.parent / target).exists()
    ]

    assert broken == []


def test_every_decision_page_is_listed_by_its_number_once() -> None:
    numbers = [page_.name[:4] for page_ in sorted((ROOT / "docs" / "decisions").glob("*.md"))]

    assert numbers == [f"{n:04d}" for n in range(1, len(numbers) + 1)]
