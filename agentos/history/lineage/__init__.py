"""Lineage: the call tree below a frame, and the chain above it."""
