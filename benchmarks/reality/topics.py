"""The simulator compared with reality: predictions and real measurements over links of network namespaces.

Each topic measures and prints its own tables. If namespaces cannot be made, links are loopback.
"""

import importlib
from pathlib import Path

__all__ = ["TOPICS", "main"]

TOPICS = {"tcp": "tacit.benchmarks.reality.tcp", "deployed": "tacit.benchmarks.reality.deployed"}
"""The topics, with the module whose `main(quick, json_file, repeats)` measures, prints and returns an exit code."""


def main(quick: bool = False, json_file: Path | None = None, only: str = "", repeats: int | None = None) -> int:
    """Measure all topics, or only the topic `only`. With several topics, each JSON file has the topic's name before its
    suffix.

    Returns 1 if a result was not as predicted, else 0. Raises SystemExit for an unknown topic.
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
