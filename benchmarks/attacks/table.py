"""The attacks that the protocols withstand, each on a deliberately weakened copy and on the production code ("ours").

A weakened copy differs from the production code in one thing, and is defined beside its attack. The same attack on ours
does no better than guessing, with known exceptions that have their own rows. From the exact scores that a client is
meant to get, it guesses other clients' labels better than blindly. And outside the semi-honest model, a client that
does not follow the protocol can let the server read another client's bits, and a server that does not draw the graph of
a sum at random, or shows each client other survivors, reads a vector.
"""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from tacit.benchmarks.attacks import (
    absent,
    again,
    cells,
    colluding,
    committee,
    flamingo,
    graph,
    hashes,
    identities,
    keys,
    labels,
    lightsecagg,
    openings,
    pairs,
    privacy,
    reports,
    rounding,
    sums,
)
from tacit.benchmarks.attacks.finding import Finding
from tacit.benchmarks.measure import environment, write_json
from tacit.scenarios.console import kinds, printing
from tacit.scenarios.console.table import Column, Table

__all__ = ["ATTACKS", "main"]

ATTACKS: dict[str, Callable[[bool], Finding]] = {
    "a": pairs.mask_of_a_few_bits,
    "b": sums.old_masks_again,
    "c": sums.rows_of_a_lost_client,
    "d": labels.labels_from_scores,
    "d, guessed": labels.labels_by_guessed_coefficients,
    "d, two": privacy.scores_of_the_only_other,
    "e": openings.two_answers_an_attempt,
    "f": openings.both_shares_in_one_answer,
    "g": pairs.no_rerandomising,
    "g, unproved key": keys.key_without_a_proof,
    "g, common factor": keys.key_of_primes_with_a_common_factor,
    "g, no distances": keys.distances_that_are_bits,
    "h": pairs.counts_in_empty_slots,
    "i": pairs.one_mask_for_two_vectors,
    "i, pads": pairs.one_pad_for_two_vectors,
    "j": pairs.one_key_for_both_directions,
    "k": pairs.wrapping_at_l,
    "l": openings.two_attempts_over_one_vector,
    "l, again": openings.one_attempt_begun_twice,
    "l, model": again.round_with_the_same_model,
    "l, seals": again.shares_for_another_set,
    "m": openings.sum_of_one,
    "m, one honest": colluding.one_honest_client,
    "m, shares": colluding.shares_of_the_colluding,
    "n": privacy.noise_from_the_files_seed,
    "n, keys": again.keys_from_the_files_seed,
    "o": graph.two_halves,
    "o, U3": graph.second_survivors,
    "o, graphs": graph.two_graphs,
    "o, degree": graph.too_few_neighbours,
    "o, corrupt": graph.corrupt_neighbours,
    "o, survivors": graph.other_survivors_for_each,
    "p": identities.swapped_key,
    "p, replay": identities.key_of_an_earlier_round,
    "p, U3": identities.split_survivors,
    "p, left out": identities.honest_left_out,
    "p, lost": identities.honest_lost,
    "q": again.noisy_sums_again,
    "q, answers": again.answers_again,
    "q, hashes": again.hashes_again,
    "q, changes": rounding.noise_of_changes_rounded_away,
    "q, rounding": rounding.noise_rounded_away,
    "r": committee.two_sets,
    "r, member": committee.share_of_a_member,
    "r, unsigned": committee.one_set_and_a_part,
    "s": lightsecagg.piece_of_a_client,
    "s, sets": lightsecagg.two_sets,
    "s, unsigned": lightsecagg.one_set_and_a_part,
    "t": flamingo.too_many_decryptors,
    "t, unsigned": flamingo.both_kinds,
    "t, gaps": flamingo.split_set,
    "u": absent.coded_masks,
    "u, committee": absent.committee_of_those_that_joined,
    "u, decryptors": absent.decryptors_of_those_that_joined,
    "u, graph": absent.graph_of_those_that_joined,
    "u, order": absent.order_of_the_list,
    "v": reports.leader_alone,
    "v, helper": reports.helper_alone,
    "v, stuffed": reports.stuffed_votes,
    "v, scaled": reports.scaled_models,
    "v, batch": reports.filled_batch,
    "v, again": reports.second_batch,
    "v, key": reports.swapped_helper_key,
}
"""The attacks by name. Each takes one argument, `quick`, for fewer trials of the same attack."""


def main(quick: bool = False, json_file: Path | None = None) -> None:
    """Carry out all attacks, print a table, and write it to `json_file`. Raises SystemExit if a result is not as
    stated."""
    console = printing.make_console()
    findings = {letter: attack(quick) for letter, attack in ATTACKS.items()}
    printing.print_lines(
        console, ["What an attack recovers, and of how many, from the weakened copy and from ours:", ""]
    )
    printing.print_table(console, _table(findings))
    printing.print_lines(
        console,
        [f"{finding.name} ({finding.sought}): {finding.remark}" for finding in findings.values() if finding.remark],
    )
    guessed = hashes.guesses(quick)
    printing.print_lines(console, ["", "What a server makes of distances (H) or of direct hashes, on digits:", ""])
    printing.print_table(console, _guesses(guessed))
    audits = cells.audits(quick)
    printing.print_lines(console, ["", "Private cells, audited by canaries (delta = 1e-5, confidence 0.95):", ""])
    printing.print_table(console, _audits(audits))
    rows = [{"attack": letter, "verdict": _verdict(f)} | asdict(f) for letter, f in findings.items()]
    write_json(
        json_file,
        environment=environment(("numpy", "gmpy2")),
        quick=quick,
        findings=rows,
        hashes=guessed,
        audits=audits,
    )
    wrong = [finding.name for finding in findings.values() if not finding.as_stated] + hashes.problems(guessed)
    wrong += cells.problems(audits)
    if wrong:
        console.print(f"not as stated: {', '.join(wrong)}")
        raise SystemExit(1)


def _verdict(finding: Finding) -> str:
    """The verdict on the attack on ours, in words."""
    if not finding.as_stated:
        return "NOT AS STATED"
    if finding.outside:
        return "outside the model"
    return "above chance" if finding.remains else "at chance"


def _guesses(found: list[hashes.Guess]) -> Table:
    columns = (
        Column("the server has", key="sees"),
        "estimator",
        Column("helped by", of=lambda one: f"a client with {one.helped}" if one.helped else "nobody"),
        Column("epsilon", kinds.Kind(lambda epsilon: f"{epsilon:g} a bit", numbers=False), missing="none"),
        Column("error of angles' cosines", kinds.decimals(3), "error", missing=""),
        Column("cosine to the point", kinds.decimals(3), "cosine", missing=""),
    )
    return Table.of(found, columns)


def _audits(found: list[cells.Audit]) -> Table:
    columns = (
        Column("epsilon", kinds.significant(6)),
        Column("noise", kinds.significant(6), "factor"),
        Column("runs", kinds.COUNT),
        *(Column(name, kinds.decimals(3)) for name in ("false alarms", "misses", "mu")),
        Column("mu at least", kinds.decimals(3), "least_mu"),
        Column("epsilon at least", kinds.decimals(2), "epsilon_by_mu"),
        Column("the statement", of=lambda one: "refuted" if one.refuted else "stands"),
    )
    return Table.of(found, columns)


def _table(findings: dict[str, Finding]) -> Table:
    columns = (
        Column("weakness", key="name"),
        Column("who seeks what", key="sought"),
        Column("of", kinds.COUNT, "trials"),
        *(Column(name, kinds.share(1)) for name in ("weakened", "ours", "chance")),
        Column("ours is", of=_verdict),
    )
    return Table.of(findings.values(), columns)
