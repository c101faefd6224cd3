"""Toolboxes of agents-exe files: scripts, SQLite and system are ours, of what is lacking the settings are kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.definitions.agents_exe_support import imported, shown, spec_of, texts


def boxes(folder: Path, **contents: Any) -> list[dict[str, Any]]:
    """The toolboxes in native form, which has to be a good one."""
    found = imported(folder, **contents)
    spec_of(found)
    toolboxes: list[dict[str, Any]] = found.value.get("toolboxes", [])
    return toolboxes


def directory(path: str, **more: Any) -> dict[str, Any]:
    return {"tag": "FileSystemDirectory", "contents": {"Path": path, **more}}


def builtin(kind: str, **contents: Any) -> dict[str, Any]:
    return {"tag": kind, "contents": contents}


def script(name: str, path: str, **more: Any) -> dict[str, Any]:
    return {"kind": "script", "name": name, "path": path, "base": "working-directory", "prefix": "bash_", **more}


SQLITE = {
    "kind": "sqlite",
    "name": "notes",
    "description": "What we know.",
    "path": "./notes.db",
    "base": "working-directory",
    "tool": "sqlite_notes_query",
    "access": "read-write",
}


def test_scripts_are_found_from_the_working_directory_and_named_by_their_path(tmp_path: Path) -> None:
    found = boxes(
        tmp_path,
        toolDirectory="own tools",
        bashToolboxes=[
            directory("./tools/dev/read", BasenameFilter=".sh", Root=None, Activation="always"),
            directory("read", Root="tools/dev"),
            {"tag": "SingleTool", "contents": {"Path": "/opt/one.sh"}},
        ],
    )

    assert found == [
        script("own-tools", "own tools"),
        script("tools/dev/read", "tools/dev/read", filter=".sh"),
        script("tools/dev/read-2", "tools/dev/read"),
        script("opt/one.sh", "/opt/one.sh"),
    ]


def test_the_same_scripts_once_more_are_read_past(tmp_path: Path) -> None:
    found = imported(tmp_path, toolDirectory="tools", bashToolboxes=[directory("./tools"), directory("tools/")])

    assert found.value["toolboxes"] == [script("tools", "tools")]
    assert [text for text in texts(found) if "already" in text] == [
        "warning: the scripts of 'tools' are already this agent's; read past"
    ] * 2


def test_the_three_generations_of_a_database_are_one_toolbox(tmp_path: Path) -> None:
    tag = {"tag": "SqliteReadWrite", "path": "./notes.db"}
    generations: list[dict[str, Any]] = [
        {"Name": "notes", "Description": "What we know.", "Versioning": tag},
        {"name": "notes", "description": "What we know.", "versioning": tag},
        {"Name": "notes", "Description": "What we know.", "Path": "./notes.db", "Access": "read-write"},
        {"name": "notes", "description": "What we know.", "path": "./notes.db", "access": "read-write"},
        {"Name": "notes", "Description": "What we know.", "Versioning": {**tag, "tag": "SqliteNoVersioning"}},
    ]

    for contents in generations:
        assert boxes(tmp_path, builtinToolboxes=[builtin("SqliteToolbox", **contents)]) == [SQLITE]


def test_generations_of_all_other_toolboxes_are_the_same_too(tmp_path: Path) -> None:
    def of(change: Any) -> list[dict[str, Any]]:
        def keys(**contents: Any) -> dict[str, Any]:
            return {change(key): value for key, value in contents.items()}

        sandbox: dict[str, Any] = {"fsbPredicate": {"tag": "AlwaysAllow"}, "fsbName": "all"}
        system: dict[str, Any] = {
            "name": "s",
            "description": "d",
            "capabilities": ["date"],
            "envVarFilter": "X",
            "fileSandbox": sandbox,
        }
        lua: dict[str, Any] = {
            "name": "l",
            "description": "d",
            "maxMemoryMB": 4,
            "allowedTools": ["x"],
            "fileSandbox": sandbox,
        }
        server: dict[str, Any] = {
            "specUrl": "http://localhost/",
            "baseUrl": "http://localhost",
            "headers": {"A-B": "c"},
        }
        return boxes(
            tmp_path,
            bashToolboxes=[{"tag": "FileSystemDirectory", "contents": keys(path="t", basenameFilter=".sh")}],
            builtinToolboxes=[
                builtin("SystemToolbox", **keys(**system)),
                builtin("DeveloperToolbox", **keys(name="d", description="d", capabilities=["show-spec"])),
                builtin("LuaToolbox", **keys(**lua)),
            ],
            mcpServers=[{"tag": "McpSimpleBinary", "contents": keys(name="m", executable="x", args=["--y"])}],
            openApiToolboxes=[{"tag": "OpenAPIServer", "contents": keys(**server)}],
            postgrestToolboxes=[{"tag": "PostgRESTServer", "contents": keys(**server, allowedMethods=["GET"])}],
        )

    camel, pascal, lower = of(str), of(lambda key: key[0].upper() + key[1:]), of(str.lower)

    assert [box["kind"] for box in camel] == ["script", "system", "developer", "lua", "mcp", "openapi", "postgrest"]
    assert camel == pascal == lower


@pytest.mark.parametrize(
    ("contents", "stands", "problem"),
    [
        ({}, '"contents":', "the key 'Versioning' is missing"),
        ({"Path": "a.db"}, '"contents":', "the key 'Access' is missing"),
        ({"Access": "read-only"}, '"contents":', "the key 'Path' is missing"),
        (
            {"Path": "a.db", "Access": "read-wirte"},
            '"Access": "read-wirte"',
            "Access: 'read-wirte' is none of read-only, read-write, snapshot; did you mean read-write?",
        ),
        ({"Versioning": {"tag": "SqliteReadOnly"}}, '"Versioning":', "the key 'path' is missing"),
        (
            {"Versioning": {"tag": "SqliteReadOnly", "path": 7}},
            '"path": 7',
            "path: a text is needed here, not a number",
        ),
        (
            {"Versioning": {"tag": "SqliteReadOnly", "path": " "}},
            '"path": " "',
            "path: the name of a file or directory is needed here",
        ),
        (
            {"Versioning": "SqliteReadOnly"},
            '"Versioning": "SqliteReadOnly"',
            "Versioning: a mapping of keys is needed here, not a text",
        ),
    ],
)
def test_a_database_that_is_not_wholly_told_is_an_error_at_its_place(
    tmp_path: Path, contents: dict[str, Any], stands: str, problem: str
) -> None:
    found = imported(tmp_path, builtinToolboxes=[builtin("SqliteToolbox", Name="notes", Description="d", **contents)])

    assert shown(found) == [(stands, f"error: {problem}")]


@pytest.mark.parametrize(
    ("contents", "reason"),
    [
        (
            {"Versioning": {"tag": "SqliteVersioned", "shared": "turn", "basePath": "a.db", "storageRoot": "/x"}},
            "databases with versions are not in this version",
        ),
        ({"Path": "a.db", "Access": "snapshot"}, "a copy of the database for each conversation is not in this version"),
    ],
)
def test_a_database_of_a_way_that_this_version_lacks_is_there_and_says_so(
    tmp_path: Path, contents: dict[str, Any], reason: str
) -> None:
    found = imported(tmp_path, builtinToolboxes=[builtin("SqliteToolbox", Name="notes", **contents)])

    [box] = spec_of(found).private_toolboxes
    assert (box[0], box[1].unavailable) == ("helper/notes", reason)
    assert texts(found) == [f"warning: {reason}"]


def test_the_older_keys_beside_the_newer_are_read_past(tmp_path: Path) -> None:
    box = builtin("SqliteToolbox", Name="a", Path="x.db", Versioning={"tag": "SqliteReadOnly", "path": "y.db"})

    found = imported(tmp_path, builtinToolboxes=[box])

    assert found.value["toolboxes"][0]["path"] == "y.db"
    assert texts(found) == ["warning: Path: Versioning says it; read past"]


def test_a_system_toolbox_keeps_what_this_version_has_of_it(tmp_path: Path) -> None:
    box = builtin(
        "SystemToolbox",
        Name="box",
        Description="d",
        Capabilities=["date", "wait", "execute-command"],
        EnvVarFilter="AGENT",
        CommandFilter="bin/judge",
        FileSandbox={"ref": "code"},
    )
    code = {"fsbPredicate": {"tag": "DirectoryRecursive", "contents": "src"}, "fsbMaxFileSize": 10, "--x": 1}

    found = imported(tmp_path, builtinToolboxes=[box], fileSandboxes={"code": code})

    spec_of(found)
    assert found.value["toolboxes"] == [
        {
            "kind": "system",
            "name": "box",
            "description": "d",
            "prefix": "system_box_",
            "base": "working-directory",
            "env_filter": "AGENT",
            "command_filter": "bin/judge",
            "sandbox": {"fsbPredicate": {"tag": "DirectoryRecursive", "contents": "src"}, "fsbMaxFileSize": 10},
            "capabilities": ["date", "execute-command"],
        }
    ]
    assert texts(found) == [
        "warning: the key '--x' is read past, as a comment",
        "warning: the capability 'wait' is not in this version; left out",
    ]


def test_a_wrong_value_deep_in_a_toolbox_is_told_at_its_line_and_column(tmp_path: Path) -> None:
    predicate = {"tag": "Any", "contents": [{"tag": "AlwaysDeny"}, {"tag": "DirectoryRecursiv", "contents": "src"}]}
    box = builtin(
        "SystemToolbox", Name="box", Description="d", Capabilities=["date", 7], FileSandbox={"fsbPredicate": predicate}
    )

    found = imported(tmp_path, builtinToolboxes=[box])

    (rule, rule_said), (capability, capability_said) = shown(found)
    assert (rule, rule_said[:34]) == ('"tag": "DirectoryRecursiv"', "error: unknown rule 'DirectoryRecu")
    assert (capability, capability_said) == ("7", "error: Capabilities: a text is needed here, not a number")


def test_commands_that_no_filter_judges_are_left_out(tmp_path: Path) -> None:
    box = builtin("SystemToolbox", Name="box", Description="d", Capabilities=["execute-command", "date"])

    found = imported(tmp_path, builtinToolboxes=[box])

    assert found.value["toolboxes"][0]["capabilities"] == ["date"]
    assert texts(found) == [
        "warning: the capability 'execute-command' is to be had with a CommandFilter alone; left out"
    ]


def test_an_unknown_capability_is_an_error_with_the_near_word(tmp_path: Path) -> None:
    box = builtin("SystemToolbox", Name="box", Description="d", Capabilities=["hostnam"])

    assert texts(imported(tmp_path, builtinToolboxes=[box])) == [
        "error: the capability 'hostnam' is unknown; did you mean hostname?"
    ]


def test_a_sandbox_of_no_such_name_is_an_error(tmp_path: Path) -> None:
    box = builtin("DeveloperToolbox", Name="dev", Description="d", Capabilities=[], FileSandbox={"ref": "cod"})

    found = imported(tmp_path, builtinToolboxes=[box], fileSandboxes={"code": {}})

    assert ('"ref": "cod"', "error: ref: fileSandboxes has no mapping named 'cod'; did you mean code?") in shown(found)


def test_what_this_version_lacks_keeps_its_settings(tmp_path: Path) -> None:
    found = boxes(
        tmp_path,
        mcpServers=[
            {"tag": "McpSimpleBinary", "contents": {"name": "chrome", "executable": "npx", "args": ["x@latest"]}}
        ],
        openApiToolboxes=[{"tag": "OpenAPIServerOnDisk", "contents": "api.json"}] * 2,
        skillSources=[{"tag": "SkillDirectory", "contents": "./skills"}],
        autoEnableSkills=["review"],
    )

    assert found == [
        {"kind": "mcp", "name": "chrome", "settings": {"executable": "npx", "args": ["x@latest"]}},
        {"kind": "openapi", "name": "openapi", "settings": {"path": "api.json"}},
        {"kind": "openapi", "name": "openapi-2", "settings": {"path": "api.json"}},
        {
            "kind": "skills",
            "name": "skills",
            "settings": {
                "skillSources": [{"tag": "SkillDirectory", "contents": "./skills"}],
                "autoEnableSkills": ["review"],
            },
        },
    ]


def test_tools_on_demand_lifetimes_and_bindings_are_warned_of(tmp_path: Path) -> None:
    more = {
        "Activation": {"tag": "on-demand", "toolgroup": "git"},
        "Lifetime": "program",
        "Bindings": [{"arg": "a", "value": {"tag": "Literal", "contents": 1}}],
    }

    assert texts(imported(tmp_path, bashToolboxes=[directory("tools", **more)])) == [
        "warning: Activation: tools on demand are not in this version; these are there from the start",
        "warning: Lifetime: how long a toolbox lives is a matter of its kind here; read past",
        "warning: Bindings: not in this version; the model sees and chooses the bound arguments itself",
    ]


def test_names_of_toolboxes_are_unique_within_an_agent(tmp_path: Path) -> None:
    read_only = {"Versioning": {"tag": "SqliteReadOnly", "path": "a.db"}}
    found = boxes(
        tmp_path,
        bashToolboxes=[directory("notes")],
        builtinToolboxes=[
            builtin("SqliteToolbox", Name="notes", Description="d", **read_only),
            builtin("SystemToolbox", Name="notes", Description="d", Capabilities=["date"]),
        ],
    )

    assert [box["name"] for box in found] == ["notes", "notes-2", "notes-3"]
    assert (found[1]["tool"], found[2]["prefix"]) == ("sqlite_notes_query", "system_notes_")


def test_two_toolboxes_with_tools_of_one_name_are_an_error(tmp_path: Path) -> None:
    box = builtin("SqliteToolbox", Name="a", Description="d", Versioning={"tag": "SqliteReadOnly", "path": "a.db"})

    assert texts(imported(tmp_path, builtinToolboxes=[box, box])) == [
        "error: Name: another toolbox of this agent has the tool 'sqlite_a_query' already"
    ]


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("my notes", "warning: Name: 'my_notes' in the names of its tools, which have only letters, digits, _ and -"),
        ("", "error: Name: 1 to 39 characters are needed: it stands in the names of the tools"),
        ("a" * 40, "error: Name: 1 to 39 characters are needed: it stands in the names of the tools"),
    ],
)
def test_a_name_that_no_tool_may_have_is_changed_or_refused(tmp_path: Path, name: str, problem: str) -> None:
    box = builtin("SqliteToolbox", Name=name, Description="d", Versioning={"tag": "SqliteReadOnly", "path": "a.db"})

    assert texts(imported(tmp_path, builtinToolboxes=[box])) == [problem]


def test_what_is_no_toolbox_is_told_and_the_others_are_read(tmp_path: Path) -> None:
    found = imported(
        tmp_path,
        bashToolboxes=[
            7,
            {"tag": "FileSystemDir", "contents": {}},
            {"tag": "SingleTool", "contents": []},
            directory("t"),
        ],
        mcpServers={"a": 1},
    )

    assert [box["name"] for box in found.value["toolboxes"]] == ["t"]
    assert shown(found) == [
        ("7", 'error: {"tag": ..., "contents": ...} is needed here, not a number'),
        (
            '"tag": "FileSystemDir"',
            "error: tag: 'FileSystemDir' is none of FileSystemDirectory, SingleTool; did you mean FileSystemDirectory?",
        ),
        ('"contents": []', "error: SingleTool: its contents have to be a mapping of keys, not a list"),
        ('"mcpServers":', "error: mcpServers: a list is needed here, not a mapping of keys"),
    ]


def test_a_lua_toolbox_keeps_its_limits_and_the_name_of_its_tool(tmp_path: Path) -> None:
    box = builtin(
        "LuaToolbox",
        Name="orchestrator",
        Description="Combines tools.",
        MaxMemoryMB=64,
        MaxExecutionTimeSeconds=2.5,
        AllowedTools=["bash_date", "io_prompt_agent_x"],
        AllowedHosts=["localhost"],
        FileSandbox={"fsbPredicate": {"tag": "AlwaysAllow"}},
    )

    found = imported(tmp_path, builtinToolboxes=[box])

    assert found.value["toolboxes"] == [
        {
            "kind": "lua",
            "name": "orchestrator",
            "description": "Combines tools.",
            "tool": "lua_orchestrator_execute",
            "state": "call",
            "memory_mb": 64,
            "time_s": 2.5,
            "tools": ["bash_date", "io_prompt_agent_x"],
        }
    ]
    assert sorted(texts(found)) == [
        "warning: AllowedHosts: scripts have no module http in this version; read past",
        "warning: FileSandbox: scripts have no module fs in this version; read past",
    ]
    assert spec_of(found).private_toolboxes[0][1].unavailable is None


@pytest.mark.parametrize(
    ("wrong", "stands", "problem"),
    [
        ({"MaxMemoryMB": 0}, '"MaxMemoryMB": 0', "MaxMemoryMB: a whole number above 0 is needed here"),
        ({"MaxMemoryMB": 1.5}, '"MaxMemoryMB": 1.5', "MaxMemoryMB: a whole number above 0 is needed here"),
        (
            {"MaxExecutionTimeSeconds": 0},
            '"MaxExecutionTimeSeconds": 0',
            "MaxExecutionTimeSeconds: a number above 0 is needed here",
        ),
        ({"AllowedTools": [7]}, "7", "AllowedTools: a text is needed here, not a number"),
    ],
)
def test_a_limit_of_lua_that_is_none_is_an_error_at_its_place(
    tmp_path: Path, wrong: dict[str, Any], stands: str, problem: str
) -> None:
    found = imported(tmp_path, builtinToolboxes=[builtin("LuaToolbox", Name="l", Description="d", **wrong)])

    assert shown(found) == [(stands, f"error: {problem}")]
