"""Puts what the code declares into docs/privacy.md: who learns what by each protocol, the options, the attacks.

python docs/privacy.py

What is made goes between the lines `<!-- made: NAME -->` and `<!-- end -->`; the rest of the page is written by hand.
Protocols say themselves what is learned (`learned` of a declaration). What attacks recover is read from
docs/attacks.json, which `tacit bench attacks --json docs/attacks.json` writes.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tacit.protocols.registry import PROTOCOLS
from tacit.scenarios.schema.keys import keys

PAGE = Path(__file__).with_name("privacy.md")
ATTACKS = Path(__file__).with_name("attacks.json")


@dataclass(frozen=True)
class Option:
    """A `value` of a `key`: what it hides, what that assumes, its cost, and the attacks on it by their letters."""

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


_HONEST = "all follow the protocol; the server helps no client"
_SUM = ("e", "f", "l", "l, again", "l, model", "l, seals", "m")
_GRAPH = ("o", "o, U3", "o, graphs", "o, degree", "o, corrupt", "o, survivors")

OPTIONS = (
    Option(
        "protocol.hamming",
        "paillier",
        "hash bits from everybody but their owner; the server has distances alone",
        f"{_HONEST}; Paillier keys are honestly made (else `rerandomise`)",
        "57.7 MB for the main job",
        ("a", "g", "g, unproved key", "g, no distances", "h", "i", "i, pads", "j", "k"),
    ),
    Option(
        "protocol.hamming",
        "iknp",
        "the same by oblivious transfer",
        f"{_HONEST}; computational Diffie-Hellman",
        "more bytes, less computing: `tacit bench bytes`",
        ("a", "i", "i, pads", "j", "k"),
    ),
    Option(
        "protocol.hamming",
        "naor-pinkas",
        "the same, each transfer by itself",
        f"{_HONEST}; computational Diffie-Hellman",
        "most bytes and most computing",
        ("a", "j", "k"),
    ),
    Option(
        "protocol.hamming",
        "direct",
        "nothing of the bits; their planes are hidden from the server, which so learns angles, as from distances",
        f"{_HONEST}: with one client's planes hashes open every point",
        "3.4 MB for the main job",
    ),
    Option("protocol.hamming", "plaintext", "nothing: for comparison", "", "least"),
    Option(
        "protocol.rerandomise",
        "fresh",
        "a client's bits from one whose Paillier key is crafted and passes the proof",
        _HONEST,
        "about 9 ms more for each result at 2048 bits",
        ("g, common factor",),
    ),
    Option(
        "protocol.rows",
        "unlabeled",
        "scores of a client's own labeled points from itself, from which it would solve for others' labels",
        "all follow the protocol",
        "fewer bytes",
        ("d", "d, guessed", "d, two"),
    ),
    Option(
        "protocol.recovery",
        "restart",
        "single clients' class scores: the server has sums, of which each block is masked by its owner",
        _HONEST,
        "an attempt for each client that is lost in it",
        ("b", "c"),
    ),
    Option(
        "protocol.recovery",
        "shamir",
        "the same, also where clients are lost",
        f"{_HONEST}; fewer than t clients put their shares together",
        "36 bytes a share, for each pair",
        ("b", "c", "e", "f"),
    ),
    Option(
        "protocol.recovery",
        "secagg+",
        "the same among neighbours in a random graph",
        f"{_HONEST}; the server draws the graph at random",
        "shares and masks grow with k in place of the number of clients",
        ("b", "c", "e", "f"),
    ),
    Option(
        "training.averaging",
        "secure",
        "each client's model: the server has averages over `training.min_clients` or more",
        f"{_HONEST}; clients see to t, and to the fewest who are summed",
        "8 bytes a number in place of 4, keys and shares; see performance.md",
        _SUM,
    ),
    Option(
        "training.averaging",
        "secagg+",
        "the same, for many clients",
        f"{_HONEST}, also in drawing the graph and in naming who is left",
        "a third of the bytes among 1,000 clients; see performance.md",
        (*_SUM, *_GRAPH),
    ),
    Option(
        "protocol.identity",
        "signed",
        "what a server would see that swaps or replays keys, or shows clients different lists: it is refused and named",
        "long-term keys are known beforehand; at most a third of those in a round help the server",
        "64 bytes a signature: 1.9 kB of 12.7 a client in a sum of ten; see performance.md",
        ("p", "p, replay", "p, U3"),
    ),
    Option(
        "protocol.threshold",
        "",
        "with signatures, and above 2/3 of all clients: what a server sees that leaves honest clients out",
        "at most a third of all clients help the server",
        "no sum where a third are lost",
        ("p, left out",),
    ),
    Option(
        "cotraining.votes",
        "secure",
        "each client's labels of public points: the server has counts",
        f"{_HONEST}; votes are well-formed",
        "44 times the bytes of plain votes, or 15.8 kB a round for 719 points and ten classes, among five",
        _SUM,
    ),
    Option(
        "privacy.label_epsilon",
        "",
        "each label a client has, by randomised response: epsilon a label, delta 0, whoever looks, however many rounds",
        "the client's own randomness (`entropy`)",
        "0.8 points of accuracy in XCLP on digits at 4, 16 at 2",
    ),
    Option(
        "privacy.hash_epsilon",
        "",
        "nearby points from one another: epsilon a bit, so by the angle between two points",
        "as above; planes are fresh in each round, and rounds add up",
        "6.8 points of accuracy on digits at 2 a bit",
        ("q, hashes",),
    ),
    Option(
        "privacy.epsilon",
        "",
        "an element of a client's data (`dp-fedct`, `dp-pate`), a point with its label (`private-cells`), or all data "
        "of one client (`dp-fedavg`)",
        "`privacy.noise_at` and the sections below say against whom; the stated sensitivity",
        "docs/results.md",
        ("q", "q, answers"),
    ),
    Option(
        "privacy.noise_at",
        "clients",
        "the average without noise from the server, too",
        "noise of the fewest survivors is enough, and they are honest; a secure average",
        "more noise the fewer survivors it is made for",
    ),
    Option(
        "cells.colluding",
        "",
        "the same of `private-cells` from the server together with this number of clients",
        "all follow the protocol; no more clients than that help the server; `protocol.min_clients` are left",
        "more noise: what colluding clients add does not count",
        _SUM,
    ),
    Option(
        "entropy",
        "os",
        "all secrets and noise from who has the scenario's file",
        "the machine's generator",
        "a run cannot be repeated",
        ("n", "n, keys"),
    ),
)


def line(cells: Sequence[str]) -> str:
    """One line of a Markdown table."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    return "\n".join([line(columns), line(["---"] * len(columns)), *map(line, rows)])


def goes_with(option: Option, name: str) -> bool:
    """True if the protocol can take the option: what a secure sum cannot average has the key, and refuses the value."""
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
        (one.name, one.hides, one.assumes or "-", one.costs, ", ".join(one.attacks) or "-")
        for one in OPTIONS
    ]  # fmt: skip
    return table(("option", "hides", "as long as", "costs", "attacks"), rows)


def protocols() -> str:
    """A section for those protocols from which the same is learned."""
    found: dict[tuple[str, ...], list[str]] = {}
    for name, protocol in PROTOCOLS.items():
        learned = tuple(f"{role}: {what}" for role, what in protocol.learned.items())
        found.setdefault(learned, []).append(name)
    used, parts = users(), []
    for learned, names in found.items():
        lines = [f"### {', '.join(f'`{name}`' for name in names)}", ""]
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
            lines.append(f"- Attacks on these: {'; '.join(letters)}.")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def attacks() -> str:
    """The findings of each attack."""
    found = json.loads(ATTACKS.read_text(encoding="utf-8"))
    rows = [
        (one["attack"], f"{one['name']} ({one['sought']})", *(f"{one[k]:.1%}" for k in ("weakened", "ours", "chance")),
         one["verdict"])
        for one in found["findings"]
    ]  # fmt: skip
    return table(
        ("", "attack (who seeks what)", "without the guard", "as shipped", "by guessing", "as shipped is"), rows
    )


MADE: dict[str, Callable[[], str]] = {"protocols": protocols, "options": options, "attacks": attacks}


def page(text: str) -> str:
    """The page `text` with what is made in its places. Raises ValueError for a missing place or key."""
    known = users()
    if unknown := [one.key for one in OPTIONS if one.key not in known]:
        raise ValueError(f"no keys of a scenario: {', '.join(unknown)}")
    for name, make in MADE.items():
        mark = f"<!-- made: {name} -->"
        if text.count(mark) != 1:
            raise ValueError(f"{PAGE.name} has no place for it: needed, once: {mark} and <!-- end -->")
        place = re.compile(rf"({re.escape(mark)}\n).*?(<!-- end -->)", re.DOTALL)
        made = make()
        text = place.sub(lambda found, made=made: f"{found[1]}\n{made}\n\n{found[2]}", text)
    return text


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
