from toolcell import tool


@tool
def count(text: str) -> str:
    """Counts the words of a text.

    Args:
        text: The text to count in.
    """
    return f"{len(text.split())} words"
