"""A whole store moved to another place, with equal heads."""
