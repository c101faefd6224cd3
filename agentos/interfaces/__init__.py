"""Clients: they render entries and pass commands on, and decide nothing."""
