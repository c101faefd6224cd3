"""Bounds of a bundle, with their units: the same for who writes one and for who reads one of a stranger."""

from __future__ import annotations

import msgspec

ZIP_BYTES_MAX = 2**32 - 2
"""Beyond it, as beyond 65,534 members, a ZIP needs zip64, of which bundles have none."""


class BundleLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What a bundle may come to. Nothing is read into memory beyond a manifest, the list of members, and one line."""

    bundle_bytes_max: int = ZIP_BYTES_MAX
    """The file as it stands, packed."""
    bundle_unpacked_bytes_max: int = 64 * 1024 * 1024 * 1024
    """All members together, unpacked."""
    bundle_member_bytes_max: int = ZIP_BYTES_MAX
    """One member, unpacked."""
    bundle_files_max: int = 65_000
    """Members; each log and each definition is one."""
    bundle_ratio_max: int = 200
    """How many bytes a packed one may become. What would be packed better stands unpacked in a bundle."""
    bundle_manifest_bytes_max: int = 64 * 1024 * 1024
    bundle_line_bytes_max: int = 128 * 1024 * 1024
    """One entry with its values, as a line of JSON."""
    bundle_log_entries_max: int = 5_000_000
    """Entries of one log."""
    bundle_unit_entries_max: int = 100_000
    """The entries of one unit, which are stored together."""
    bundle_unit_bytes_max: int = 256 * 1024 * 1024
    """Heads and values of one unit."""
    bundle_delegations_max: int = 1_000_000
    """Ends of delegated calls whose child stands later in the bundle, at any time of a verification."""
    bundle_definition_bytes_max: int = 64 * 1024 * 1024
    bundle_nodes_max: int = 20_000
    """How many turns, steps and calls spans.json and index.html show."""
