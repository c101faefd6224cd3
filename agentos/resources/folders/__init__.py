"""Folders that are held by a descriptor: ways that stay below them, their emptying, and their end."""
