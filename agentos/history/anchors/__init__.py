"""Anchors: where every log of a store ended at one moment, kept apart from it."""
