"""Replay against another configuration: what would have departed first, and what follows."""
