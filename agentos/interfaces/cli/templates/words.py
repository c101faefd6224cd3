"""Tools in Python: the signature says what the model may give, the docstring what it reads."""

from agentos import tool


@tool(effect="pure", access="read")
def count_words(text: str) -> int:
    """Count the words of a text.

    Args:
        text: the text itself
    """
    return len(text.split())


@tool(effect="pure", access="read")
def longest_words(text: str, count: int = 3) -> list[str]:
    """List the longest words of a text, the longest first.

    Args:
        text: the text itself
        count: how many to list
    """
    return sorted(dict.fromkeys(text.split()), key=len, reverse=True)[:count]
