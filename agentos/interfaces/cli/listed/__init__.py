"""The tables of commands; `agentos.interfaces.cli.listing` puts them together."""
