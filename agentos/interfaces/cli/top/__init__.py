"""top: how a running kernel does, refreshed at a terminal."""
