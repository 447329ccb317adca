"""Lines of results that have a label: on a terminal in a column of its own, on a page as a heading or not at all."""

__all__ = ["WIDTH", "Labelled"]

WIDTH = 10
"""The width of the column of labels on a terminal."""


class Labelled(str):
    """The line as a terminal shows it, with its parts: the `label` (empty: that of the line before) and the `text`.

    `warns` is true for a line that readers must not overlook.
    """

    label: str
    text: str
    warns: bool

    def __new__(cls, label: str, text: str, *, warns: bool = False) -> "Labelled":
        line = super().__new__(cls, f"{label:<{WIDTH}}{text}")
        line.label, line.text, line.warns = label, text, warns
        return line
