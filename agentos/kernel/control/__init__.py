"""The control socket: a running kernel is asked from other processes of the same user, by lines of JSON."""
