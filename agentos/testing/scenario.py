"""Scenarios: small YAML files that say what a kernel is put through and what must be seen."""
