"""The demo: a program as a user would write one, over the public API, on the files of any folder."""
