"""The tools of an imported agent have the names that its prompts speak of."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from agentos.definitions import load_all, own_toolboxes, wire
from agentos.ids import Name
from agentos.settings import Settings
from tests.definitions.agents_exe_support import whole, written

SCRIPT = """\
#!/bin/sh
[ "$1" = describe ] && echo '{"slug": "read-file", "description": "Reads.", "args": []}'
exit 0
"""


async def test_tools_of_all_kinds_keep_their_names(tmp_path: Path) -> None:
    (tmp_path / "work" / "tools").mkdir(parents=True)
    script = tmp_path / "work" / "tools" / "read.sh"
    script.write_text(SCRIPT)
    script.chmod(0o755)
    sqlite3.connect(tmp_path / "work" / "notes.db").close()
    database = {"tag": "SqliteReadOnly", "path": "notes.db"}
    path = written(
        tmp_path,
        whole(
            bashToolboxes=[{"tag": "FileSystemDirectory", "contents": {"Path": "tools", "BasenameFilter": ".sh"}}],
            builtinToolboxes=[
                {"tag": "SqliteToolbox", "contents": {"Name": "notes", "Description": "d", "Versioning": database}},
                {
                    "tag": "SystemToolbox",
                    "contents": {"Name": "box", "Description": "d", "Capabilities": ["date", "running-user"]},
                },
                {"tag": "DeveloperToolbox", "contents": {"Name": "dev", "Description": "d", "Capabilities": []}},
            ],
            extraAgents=[{"slug": "helper", "path": "agent.json"}],
        ),
        "agents/agent.json",
    )
    loaded = load_all(None, [path])
    loaded.check()
    boxes = own_toolboxes(loaded.agents["helper"], tmp_path / "work")
    for box in boxes:
        await box.open()

    agents = {Name(slug): spec for slug, spec in loaded.agents.items()}
    contexts = wire(agents, toolboxes={box.name: box for box in boxes}, settings=Settings())

    for box in boxes:
        await box.close()
    assert [tool.name for tool in contexts["helper"].tools] == [
        "bash_read-file",
        "io_prompt_agent_helper",
        "sqlite_notes_query",
        "system_box_date",
        "system_box_running_user",
    ]
