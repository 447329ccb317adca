"""Fills the lists of docs/privacy.md and docs/privacy/: leakage by protocol, options, attacks.

python docs/privacy.py

A list goes between the lines `<!-- made: NAME -->` and `<!-- end -->`; the rest of the pages is written by hand.
Protocols declare what is learned (`learned` of a declaration). The success of the attacks is read from
docs/attacks.json, which `tacit bench attacks --json docs/attacks.json` writes.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tacit.protocols.registry import PROTOCOLS
from tacit.scenarios.console.table import Table, as_markdown
from tacit.scenarios.schema.keys import keys

PAGE = Path(__file__).with_name("privacy.md")
DETAILS = Path(__file__).with_name("privacy")
ATTACKS = Path(__file__).with_name("attacks.json")


@dataclass(frozen=True)
class Option:
    """A `value` of a `key`: what it protects, its assumptions, its cost, and the attacks on it by their letters."""

    key: str
    value: str
    hides: str
    assumes: str
    costs: str
    attacks: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The text in a file."""
        return f'`{self.key} = "{self.value}"`' if self.value else f"`{self.key}`"


_HONEST = "all follow the protocol; no client helps the server"
_SUM = ("e", "f", "l", "l, again", "l, model", "l, seals", "m")
_GRAPH = ("o", "o, U3", "o, graphs", "o, degree", "o, corrupt", "o, survivors", "u, graph")
_CODED = ("s", "s, sets", "s, unsigned", "u")
_COMMITTEE = ("r", "r, member", "r, unsigned", "u, committee", "u, order")
_FLAMINGO = ("t", "t, unsigned", "t, gaps", "u, decryptors", "u, order")

OPTIONS = (
    Option(
        "protocol.hamming",
        "paillier",
        "hash bits: only their owner sees them, and the server learns only distances",
        f"{_HONEST}; clients generate their Paillier keys honestly (otherwise set `rerandomise`)",
        "57.7 MB for `xclp-digits`",
        ("a", "g", "g, unproved key", "g, no distances", "h", "i", "i, pads", "j", "k"),
    ),
    Option(
        "protocol.hamming",
        "iknp",
        "hash bits, by oblivious transfer extension",
        f"{_HONEST}; computational Diffie-Hellman",
        "more bytes and less computation than `paillier`: `tacit bench bytes`",
        ("a", "i", "i, pads", "j", "k"),
    ),
    Option(
        "protocol.hamming",
        "naor-pinkas",
        "hash bits, by separate oblivious transfers",
        f"{_HONEST}; computational Diffie-Hellman",
        "most bytes and most computation",
        ("a", "j", "k"),
    ),
    Option(
        "protocol.hamming",
        "direct",
        "only the planes: the server sees the hash bits and learns angles from them, as it would from distances",
        f"{_HONEST}: with the planes from one client, the server can reconstruct every point",
        "3.4 MB for `xclp-digits`",
    ),
    Option("protocol.hamming", "plaintext", "nothing; for comparison only", "", "fewest bytes and least computation"),
    Option(
        "protocol.rerandomise",
        "fresh",
        "hash bits, against a client with a crafted Paillier key that passes the key proof",
        _HONEST,
        "about 9 ms more per result at 2048 bits",
        ("g, common factor",),
    ),
    Option(
        "protocol.rows",
        "unlabeled",
        "others' labels: a client gets no scores of its own labeled points, from which it could compute them",
        "all follow the protocol",
        "fewer bytes",
        ("d", "d, guessed", "d, two"),
    ),
    Option(
        "protocol.recovery",
        "restart",
        "each client's class scores: the server gets only sums, and each client keeps its own block of them masked",
        _HONEST,
        "one more attempt for each client that is lost",
        ("b", "c"),
    ),
    Option(
        "protocol.recovery",
        "secure",
        "each client's class scores, without a restart when clients are lost",
        f"{_HONEST}; fewer than t clients put their shares together",
        "36 bytes per share, for each pair of clients",
        ("b", "c", "e", "f"),
    ),
    Option(
        "protocol.recovery",
        "secagg+",
        "each client's class scores, with shares only among neighbours in a random graph",
        f"{_HONEST}; the server draws the graph at random",
        "shares and masks grow with the number of neighbours k, not with the number of clients",
        ("b", "c", "e", "f"),
    ),
    Option(
        "protocol.recovery",
        "lightsecagg",
        "each client's class scores, also where many clients are lost in a round",
        "all clients follow the protocol; at most `sum.corrupt_clients` of the called clients help the server; "
        "clients sign one set of survivors a round before they answer",
        "a set-up more than `secure`, and four numbers for each word where it adds integers; no second attempt",
        _CODED,
    ),
    Option(
        "protocol.recovery",
        "committee",
        "each client's class scores, with one upload per client",
        "all follow the protocol; at most `sum.corrupt_clients` of the called clients help the server, so at most "
        "t of the m members; members sign one set of survivors a round before they answer",
        "a set-up more than `secure`, and four numbers for each word where it adds integers; no second attempt",
        _COMMITTEE,
    ),
    Option(
        "protocol.recovery",
        "flamingo",
        "each client's class scores, with keys for many rounds and one message per client and round",
        "at most `sum.corrupt_clients` of the called clients help the server, so at most t of the m decryptors; "
        "clients follow the protocol; decryptors sign one set of survivors a round before they answer",
        "a set-up more than `secure`, and four numbers for each word where it adds integers; no second attempt",
        _FLAMINGO,
    ),
    Option(
        "training.averaging",
        "secure",
        "each client's model: the server gets only averages over at least `training.min_clients` clients",
        f"{_HONEST} beyond the share `sum.corrupt_clients`; clients enforce the threshold t and the minimum "
        "number of clients in a sum",
        "8 bytes per number instead of 4, plus keys and shares; see performance.md",
        _SUM,
    ),
    Option(
        "training.averaging",
        "secagg+",
        "each client's model, for many clients",
        "all follow the protocol; at most `sum.corrupt_clients` of the called clients help the server; the server "
        "also draws the graph and names the survivors honestly",
        "a twelfth of the bytes of `secure` for 1,000 clients; see performance.md",
        (*_SUM, *_GRAPH),
    ),
    Option(
        "training.averaging",
        "lightsecagg",
        "each client's model, also where many clients are lost in a round",
        "all clients follow the protocol; at most `sum.corrupt_clients` of the called clients help the server; "
        "clients sign one set of survivors a round before they answer",
        "pieces of every mask between clients: three times the bytes of `secure` for 30 clients; see secure-sums.md",
        _CODED,
    ),
    Option(
        "training.averaging",
        "committee",
        "each client's model, with one upload per client",
        "all follow the protocol; at most `sum.corrupt_clients` of the called clients help the server, so at most "
        "t of the m members; members sign one set of survivors a round before they answer",
        "(m - t) / r times the words of the vector: twice for large committees; see secure-sums.md",
        _COMMITTEE,
    ),
    Option(
        "training.averaging",
        "flamingo",
        "each client's model, with keys for many rounds and one message per client and round",
        "at most `sum.corrupt_clients` of the called clients help the server, so at most t of the m decryptors; "
        "clients follow the protocol; decryptors sign one set of survivors a round before they answer",
        "113 bytes for each neighbour and 48 for each decryptor; see secure-sums.md",
        _FLAMINGO,
    ),
    Option(
        "protocol.identity",
        "signed",
        "inputs, against a server that swaps or replays keys or shows different lists: clients reject and report it",
        "long-term keys are known in advance; at most a third of the clients that a round calls, or the share "
        "`sum.corrupt_clients` of them, help the server",
        "64 bytes per signature: 1.9 kB of 12.7 kB per client in a sum of ten; see performance.md",
        ("p", "p, replay", "p, U3", "p, left out", "p, lost", "v, key", "v, batch"),
    ),
    Option(
        "sum.corrupt_clients",
        "",
        "inputs of secure sums: against the server together with this share of the called clients, also where others "
        "are lost or left out",
        "all follow the protocol; at most this share of the called clients help the server (default: none with "
        "`secure` and `prio3`, 0.1 with other sums; of signed sets a third)",
        "more clients must be left for a sum: over half of those that take part and those that may help the server",
        ("m, shares", "m, one honest", "p, left out", "p, lost"),
    ),
    Option(
        "cotraining.votes",
        "secure",
        "each client's labels of public points: the server gets only counts",
        f"{_HONEST}; votes are well-formed",
        "44 times the bytes of plain votes: 15.8 kB per round for 719 points, ten classes and five clients",
        _SUM,
    ),
    Option(
        "cotraining.votes",
        "prio3",
        "each client's labels of public points, and the counts against clients that vote more than once",
        "all follow the protocol but for clients' votes; the server and the helper do not put their shares together",
        "five times the bytes of `secure`, and a second aggregator: see prio3.md",
        ("v", "v, helper", "v, stuffed", "v, batch", "v, again", "v, key"),
    ),
    Option(
        "training.averaging",
        "prio3",
        "each client's model, and the average against clients that send numbers out of range",
        "all follow the protocol but for clients' numbers; the server and the helper do not put their shares together",
        "17 times the bytes of a plain model at 8 bits per number, and a second aggregator: see prio3.md",
        ("v", "v, helper", "v, scaled", "v, batch", "v, again", "v, key"),
    ),
    Option(
        "privacy.votes_epsilon",
        "",
        "counts of votes with `prio3`, also against one aggregator: epsilon of all rounds, for the replaced data of "
        "one client",
        "the server and the helper do not put their shares together; who votes is no secret",
        "noise of each aggregator on each count; it takes many clients: see prio3.md",
    ),
    Option(
        "privacy.label_epsilon",
        "",
        "each label of a client, by randomised response: epsilon per label, delta 0, against everyone, over all rounds",
        "the client draws its own randomness (`entropy`)",
        "XCLP on digits: 0.8 points of accuracy at epsilon 4, 16 points at epsilon 2",
    ),
    Option(
        "privacy.hash_epsilon",
        "",
        "the difference between nearby points: epsilon per bit, and therefore by the angle between two points",
        "the client draws its own randomness (`entropy`); each round has new planes, and the epsilons of rounds add up",
        "digits: 5.6 points of accuracy at epsilon 2 per bit",
        ("q, hashes",),
    ),
    Option(
        "privacy.epsilon",
        "",
        "an element of a client's data (`dp-fedct`, `dp-pate`), a point with its label (`private-cells`), or all data "
        "of one client (`dp-fedavg`)",
        'the stated sensitivity; see "Mechanisms for differential privacy" for the adversary',
        "accuracy; see results.md",
        ("q", "q, answers"),
    ),
    Option(
        "privacy.noise_at",
        "clients",
        "the average without noise, also against the server, whatever model it sends",
        "a secure average; no more clients than stated help the server; the noise of the smallest allowed number of "
        "survivors without these, and at least without the client that looks, is enough",
        "more noise for a smaller minimum number of survivors",
        ("q, rounding",),
    ),
    Option(
        "privacy.tolerated",
        "",
        'the sum of changes without noise, also against the server, with `privacy.noise = "skellam"`: epsilon is the '
        "same for any tolerated losses",
        "a secure average, signed if noise is removed; with `secagg+` an honest server; at most the stated "
        "clients help the server; at most the share `privacy.tolerated` of the called clients is lost in a sum",
        "16 bytes of seeds per client, and drawing the noise; see private-dropouts.md",
        ("q, changes",),
    ),
    Option(
        "cells.colluding",
        "",
        "points and labels of `private-cells`, also against the server together with this number of clients",
        "all follow the protocol; at most this number of clients help the server; `protocol.min_clients` are left",
        "more noise, because the noise of colluding clients does not count",
        _SUM,
    ),
    Option(
        "entropy",
        "os",
        "all secrets and noise, against anyone who has the scenario file",
        "the operating system's random generator is secure",
        "a run cannot be repeated",
        ("n", "n, keys"),
    ),
)


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    return as_markdown(Table(columns, rows))


def goes_with(option: Option, name: str) -> bool:
    """True if the protocol accepts the option; some have the key but reject its value."""
    return option.key not in ("training.averaging", "protocol.identity") or getattr(PROTOCOLS[name], "secure", True)


def named(some: Sequence[Option]) -> str:
    """The keys of `some`, each with its values."""
    found: dict[str, list[str]] = {}
    for one in some:
        found.setdefault(one.key, []).extend([f'`"{one.value}"`'] if one.value else [])
    return ", ".join(f"`{key}`" + (f" ({', '.join(values)})" if values else "") for key, values in found.items())


def users() -> dict[str, tuple[str, ...]]:
    """The protocols that use each key; all use those that name none."""
    return {key.name: key.protocols or tuple(PROTOCOLS) for key in keys()}


def options() -> str:
    """The table of options."""
    rows = [
        (one.name, one.hides, one.assumes or "-", one.costs, ", ".join(f"`{letter}`" for letter in one.attacks) or "-")
        for one in OPTIONS
    ]  # fmt: skip
    return table(("option", "protects", "assumptions", "cost", "attacks"), rows)


def protocols() -> str:
    """A section for those protocols from which the same is learned."""
    found: dict[tuple[str, ...], list[str]] = {}
    for name, protocol in PROTOCOLS.items():
        learned = tuple(f"{role}: {what}" for role, what in protocol.learned.items())
        found.setdefault(learned, []).append(name)
    used, parts = users(), []
    for learned, names in found.items():
        lines = [f"## {', '.join(f'`{name}`' for name in names)}", ""]
        lines += [f"- `{name}`: {PROTOCOLS[name].summary}." for name in names]
        for text in learned or ("all: nothing is declared",):
            role, _, what = text.partition(": ")
            lines.append(f"- **{'The server' if role == 'server' else f'A {role}'} learns** {what}.")
        taken = {one: [name for name in names if name in used[one.key] and goes_with(one, name)] for one in OPTIONS}
        own = [one for one in OPTIONS if taken[one] == names]
        some = [one for one in OPTIONS if one not in own and taken[one]]
        for text, these in (("Options", own), ("Options of some", some)):
            if these:
                lines.append(f"- {text}: {named(these)}.")
        if letters := dict.fromkeys(letter for one in (*own, *some) for letter in one.attacks):
            lines.append(f"- Attacks on these: {', '.join(f'`{letter}`' for letter in letters)}.")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def attacks() -> str:
    """The findings of each attack."""
    found = json.loads(ATTACKS.read_text(encoding="utf-8"))
    rows = [
        (f"`{one['attack']}`", f"{one['name']} ({one['sought']})",
         *(f"{one[k]:.1%}" for k in ("weakened", "ours", "chance")), one["verdict"])
        for one in found["findings"]
    ]  # fmt: skip
    return table(
        ("", "attack (who seeks what)", "without the guard", "as shipped", "by guessing", "as shipped is"), rows
    )


MADE: dict[str, Callable[[], str]] = {"protocols": protocols, "options": options, "attacks": attacks}


def pages() -> dict[Path, str]:
    """The texts of the pages by their paths, with every list filled in.

    Raises ValueError for an unknown key of an option and for a list whose place is missing or is there twice.
    """
    known = users()
    if unknown := [one.key for one in OPTIONS if one.key not in known]:
        raise ValueError(f"no keys of a scenario: {', '.join(unknown)}")
    texts = {path: path.read_text(encoding="utf-8") for path in (PAGE, *sorted(DETAILS.glob("*.md")))}
    for name, make in MADE.items():
        mark = f"<!-- made: {name} -->"
        found = [path for path, text in texts.items() for _ in range(text.count(mark))]
        if len(found) != 1:
            raise ValueError(f"{PAGE.name} and {DETAILS.name}/*.md need this place once: {mark} and <!-- end -->")
        place = re.compile(rf"({re.escape(mark)}\n).*?(<!-- end -->)", re.DOTALL)
        made = make()
        texts[found[0]] = place.sub(lambda found, made=made: f"{found[1]}\n{made}\n\n{found[2]}", texts[found[0]])
    return texts


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
