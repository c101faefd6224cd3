"""The example of the README runs as it stands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_the_example_of_the_readme_runs_and_prints_the_answer(tmp_path: Path) -> None:
    found = re.search(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert found is not None

    ran = subprocess.run([sys.executable, "-c", found[1]], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert ran.stderr == ""
    assert ran.stdout.splitlines()[0] == "completed"
    assert "6" in ran.stdout
    assert (tmp_path / ".agentos" / "agentos.db").exists()
