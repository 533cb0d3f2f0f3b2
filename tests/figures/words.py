"""The words that one can read in a figure."""

from matplotlib.text import Text


def words_of(figure):
    """All visible texts, one a line."""
    return "\n".join(text.get_text() for text in figure.findobj(Text) if text.get_visible())
