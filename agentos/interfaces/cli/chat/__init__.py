"""chat: a conversation line by line, at a terminal or by a pipe."""
