"""Strict replay: what was recorded decided again, without a model or a tool."""
