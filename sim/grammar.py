"""Sentences with counts: "1 client is left", not "1 clients are left"."""

import re

__all__ = ["WIDTH", "Labelled", "in_number"]

_PLURALS = {
    "aggregators": "aggregator", "answers": "answer", "attempts": "attempt", "bits": "bit", "cells": "cell",
    "classes": "class", "clients": "client", "columns": "column", "combinations": "combination",
    "configurations": "configuration", "dealers": "dealer", "decryptors": "decryptor", "devices": "device",
    "draws": "draw", "events": "event", "faults": "fault", "files": "file", "folders": "folder", "holders": "holder",
    "keys": "key", "labels": "label", "lines": "line", "losses": "loss", "machines": "machine", "members": "member",
    "messages": "message", "models": "model", "names": "name", "neighbours": "neighbour", "numbers": "number",
    "parties": "party", "points": "point", "processes": "process", "promises": "promise", "questions": "question",
    "reports": "report", "rounds": "round", "rows": "row", "runs": "run", "schedules": "schedule", "seeds": "seed",
    "servers": "server", "shares": "share", "sites": "site", "steps": "step", "sums": "sum", "survivors": "survivor",
    "times": "time", "values": "value", "votes": "vote", "waits": "wait", "warnings": "warning", "workers": "worker",
}  # fmt: skip

_SINGULARS = {"are": "is", "were": "was", "have": "has", "do": "does"}

_ONE = re.compile(
    rf"(?<![-+*^=] )(?<![\w.,/:=^-])1 (of [\d,]+ )?({'|'.join(_PLURALS)})(?![\w/-])"
    rf"(?:((?: (?:with|of|for)(?: [\w'-]+){{1,4}}?)?) ({'|'.join(_SINGULARS)})\b)?"
)


def in_number(text: str) -> str:
    """Return `text` with noun and verb in the singular where the count before them is 1."""
    return _ONE.sub(_singular, text) if "1 " in text else text


def _singular(found: re.Match[str]) -> str:
    of, noun, between, verb = found.groups(default="")
    counted = f"1 {of}{noun if of not in ('', 'of 1 ') else _PLURALS[noun]}"
    return f"{counted}{between} {_SINGULARS[verb]}" if verb else counted


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
