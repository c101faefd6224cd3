"""Models by reference."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agentos.clock import SystemClock
from agentos.components import ModelRef
from agentos.errors import ConfigurationError
from agentos.events.model import ModelRequest
from agentos.models import DirectModel, make_model


def test_direct_needs_nothing() -> None:
    assert isinstance(make_model(ModelRef(kind="direct"), SystemClock(), None), DirectModel)


async def test_a_scripted_model_reads_its_file_beside_the_agents(
    tmp_path: Path, request_of: Callable[..., ModelRequest]
) -> None:
    (tmp_path / "script.yaml").write_text("- text: found\n")
    refs = [
        ModelRef(kind="scripted", name="script.yaml"),
        ModelRef(kind="scripted", options={"file": "script.yaml"}),
        ModelRef(kind="scripted", options={"steps": [{"text": "found"}]}),
    ]

    for ref in refs:
        model = make_model(ref, SystemClock(), tmp_path)
        assert (await model.complete(request_of(("user", "a")), lambda piece: None)).text == "found"
        await model.close()


@pytest.mark.parametrize(
    ("ref", "why"),
    [
        (ModelRef(kind="oracle"), "no model is of kind 'oracle'; there are direct, openai, scripted"),
        (ModelRef(kind="direct", options={"speed": 3}), "'direct' has no option 'speed'; options: none"),
        (ModelRef(kind="scripted", options={"files": ""}), "no option 'files'; options: file, steps"),
        (ModelRef(kind="scripted"), "needs the option 'file' or 'steps'"),
    ],
)
def test_a_bad_reference_is_an_error_that_tells_the_choices(ref: ModelRef, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        make_model(ref, SystemClock(), None)


def test_only_a_model_over_http_loads_an_http_client() -> None:
    program = """
import sys
from agentos.clock import SystemClock
from agentos.components import ModelRef
from agentos.kernel.kernel import Kernel
from agentos.models import make_model

def loaded():
    return sorted({"httpx", "httpx_sse", "platformdirs"} & set(sys.modules))

make_model(ModelRef(kind="direct"), SystemClock(), None)
print(loaded())
make_model(ModelRef(kind="openai", name="m"), SystemClock(), None)
print(loaded())
"""

    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    assert said.splitlines() == ["[]", "['httpx', 'httpx_sse', 'platformdirs']"]


def test_a_model_over_http_needs_a_name() -> None:
    with pytest.raises(ConfigurationError, match="a model of kind 'openai' needs a name"):
        make_model(ModelRef(kind="openai"), SystemClock(), None)
