"""Writes the schemas anew, after a change of the models."""

from __future__ import annotations

from agentos.definitions.schemas import FOLDER, schema_files

if __name__ == "__main__":
    for name, text in schema_files().items():
        (FOLDER / name).write_text(text, "utf-8")
