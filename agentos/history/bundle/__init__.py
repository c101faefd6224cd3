"""Bundles: a conversation with all below it, or a whole store, as one file that proves itself anywhere."""

from agentos.history.bundle.archive import BundleReader, is_bundle
from agentos.history.bundle.arrival import Arrived, import_bundle
from agentos.history.bundle.check import check_bundle
from agentos.history.bundle.export import Exported, export_bundle
from agentos.history.bundle.limits import BundleLimits
from agentos.history.bundle.manifest import DefinitionPart, FilePart, LogPart, Manifest

__all__ = [
    "Arrived",
    "BundleLimits",
    "BundleReader",
    "DefinitionPart",
    "Exported",
    "FilePart",
    "LogPart",
    "Manifest",
    "check_bundle",
    "export_bundle",
    "import_bundle",
    "is_bundle",
]
