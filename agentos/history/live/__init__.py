"""A recorded conversation run anew in a fork: with the real model, and as far as it is asked for with the real tools."""
