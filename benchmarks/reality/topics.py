"""The simulator beside reality: what it predicts, and what real machines take, over links of network namespaces.

Each topic measures and prints tables of its own; where namespaces cannot be made, links are those of loopback.
"""

import importlib
from pathlib import Path

__all__ = ["TOPICS", "main"]

TOPICS = {"tcp": "tacit.benchmarks.reality.tcp", "deployed": "tacit.benchmarks.reality.deployed"}
"""Topics, and the module whose `main(quick, json_file, repeats)` measures and prints them, and returns an exit code."""


def main(quick: bool = False, json_file: Path | None = None, only: str = "", repeats: int | None = None) -> int:
    """Measure all topics, or `only` that one; with more than one, the JSON file of each has its name before its suffix.

    Returns 1 if something was not as predicted, else 0. Raises SystemExit for a topic that does not exist.
    """
    if only and only not in TOPICS:
        raise SystemExit(f"--only: {only} is not a topic; allowed: {', '.join(TOPICS)}")
    topics = [only] if only else list(TOPICS)
    codes = []
    for topic in topics:
        own = (
            json_file if json_file is None or len(topics) == 1 else json_file.with_suffix(f".{topic}{json_file.suffix}")
        )
        codes.append(importlib.import_module(TOPICS[topic]).main(quick, own, repeats))
    return max(codes)
