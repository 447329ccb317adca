"""The attacks that the protocols are built against, each on a deliberately weakened copy and on ours.

A weakened copy differs from the production code in one thing, and lives with its attack. The same attack on ours does
no better than guessing, with one exception that is known and has a row of its own: from the exact scores that a
client is meant to get, it guesses more of the others' labels than blindly.
"""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import attacks_labels, attacks_pairs, attacks_sums
from benchmarks.attacks_finding import Finding
from benchmarks.measure import environment

__all__ = ["ATTACKS", "main"]

ATTACKS: dict[str, Callable[[bool], Finding]] = {
    "a": attacks_pairs.mask_of_a_few_bits,
    "b": attacks_sums.old_masks_again,
    "c": attacks_sums.rows_of_a_lost_client,
    "d": attacks_labels.labels_from_scores,
    "d, guessed": attacks_labels.labels_by_guessed_coefficients,
    "e": attacks_sums.two_answers_an_attempt,
    "f": attacks_sums.both_shares_in_one_answer,
    "g": attacks_pairs.no_rerandomising,
    "h": attacks_pairs.counts_in_empty_slots,
    "i": attacks_pairs.one_mask_for_two_vectors,
    "i, pads": attacks_pairs.one_pad_for_two_vectors,
    "j": attacks_pairs.one_key_for_both_directions,
    "k": attacks_pairs.wrapping_at_l,
}
"""Each takes whether to be quick: fewer trials, the same attack."""


def main(quick: bool = False, json_file: Path | None = None) -> None:
    """Carry all out, print a table, and write it to `json_file`. Raises SystemExit when one is not as stated."""
    console = Console()
    findings = {letter: attack(quick) for letter, attack in ATTACKS.items()}
    console.print(_table(findings))
    if json_file is not None:
        rows = [{"attack": letter, "verdict": _verdict(f)} | asdict(f) for letter, f in findings.items()]
        content = {"environment": environment(("numpy", "gmpy2")), "quick": quick, "findings": rows}
        json_file.write_text(json.dumps(content, indent=2) + "\n")
    wrong = [finding.name for finding in findings.values() if not finding.as_stated]
    if wrong:
        console.print(f"not as stated: {', '.join(wrong)}")
        raise SystemExit(1)


def _verdict(finding: Finding) -> str:
    """What the attack comes to on ours."""
    if not finding.as_stated:
        return "NOT AS STATED"
    return "above chance" if finding.remains else "at chance"


def _table(findings: dict[str, Finding]) -> Table:
    table = Table(title="What an attack recovers", title_justify="left")
    table.add_column("weakness")
    table.add_column("who seeks what")
    for column in ("of", "weakened", "ours", "chance"):
        table.add_column(column, justify="right")
    table.add_column("ours is", min_width=13)
    table.add_column("remark")
    for finding in findings.values():
        rates = [f"{rate:.1%}" for rate in (finding.weakened, finding.ours, finding.chance)]
        table.add_row(finding.name, finding.sought, f"{finding.trials:,}", *rates, _verdict(finding), finding.remark)
    return table
