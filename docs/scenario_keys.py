"""The site's page of every key of a scenario file, from the structs of scenarios/schema/scenario.py.

python docs/scenario_keys.py    prints it
"""

from collections.abc import Collection
from itertools import groupby

from msgspec import structs

from tacit.protocols.registry import PROTOCOLS
from tacit.scenarios.schema.keys import EACH, Key, keys
from tacit.sim.faults import KINDS

HEAD = """\
# The keys of a scenario file

A scenario is a TOML file. Every key may be left out unless its default says "needed"; a key that is not listed
here is an error. `tacit keys` prints the same list. On the command line, `--set TABLE.KEY=VALUE` changes a key.

- A *duration* is a number of seconds, or text with a unit: `"40ms"`, `"1.5s"`, `"2min"` (ns, us, ms, s, min, h). Text
  without a unit, such as `"40"`, is an error.
- A *rate* is text with a unit: `"20Mbit/s"`, `"1GB/s"` (bit/s to Gbit/s, B/s to GB/s), or `"unlimited"`.
- A *file* is a path relative to the scenario file; in `--set`, to the current folder.
"""

KINDS_HEAD = """\
Which keys go with which kind. `occurrence` and `probability` exclude each other; of a party's fault neither goes with
`time`. With a `round` a fault applies in that round only, and `occurrence` counts within it: `at = "train.update"` with
`round = 3` is a client's update of round 3, whether or not it was called to the rounds before.
A fault of messages strikes the first that matches, or, from a `time` on, all, for as long as it `lasts`.
`fault.0.factor` is the `factor` of the first fault, in errors and on the command line: `--set fault.0.factor=4` changes
it, and `tacit sweep NAME --over fault.0.factor=2,4,8` sweeps it; so for every key of a fault. Where only one of several
keys may be given (as of those that say when), a `--set` of one takes the others out.
"""

COLUMNS = ("key", "allowed", "unit", "default", "used by", "what it says")


def table_of(key: Key) -> str:
    """The TOML table of a key: "" at the top, otherwise as in ``data`` or ``fault.N``."""
    return key.name.rpartition(".")[0]


def heading(table: str) -> str:
    """The table as it is written in the file."""
    return f"`[[{table.removesuffix(f'.{EACH}')}]]`" if table.endswith(f".{EACH}") else f"`[{table}]`"


def line(cells: tuple[str, ...]) -> str:
    """One line of a Markdown table."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def used_by(protocols: Collection[str]) -> str:
    """The protocols that use a key; of most of them those that do not."""
    others = [name for name in PROTOCOLS if name not in protocols]
    if not protocols:
        return "all"
    return f"all but {', '.join(others)}" if len(others) < len(protocols) / 2 else ", ".join(protocols)


def row(key: Key) -> str:
    """The line of a key."""
    name, default = key.name.rpartition(".")[2], key.default
    shown = default if default in ("", "needed") else f"`{default}`"
    users = used_by(key.protocols)
    return line((f"`{name}`", key.type, key.unit, shown, users, key.description))


def kinds_of_faults() -> str:
    """The table of the keys that go with each kind of fault."""
    columns = ("kind", "needs", "when: exactly one of", "may say as well")
    rows = [line(columns), line(("---",) * len(columns))]
    for name, kind in KINDS.items():
        needs = [field.name for field in structs.fields(kind) if field.required]
        others = (key for key in kind.__struct_fields__ if key not in needs and key not in kind.when)
        cells = (", ".join(f"`{key}`" for key in keys) or "-" for keys in (needs, kind.when, others))
        rows.append(line((f"`{name}`", *cells)))
    return f"{KINDS_HEAD}\n" + "\n".join(rows) + "\n"


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for table, members in groupby(keys(), table_of):
        title = heading(table) if table else "At the top, before any table"
        rows = [line(COLUMNS), line(("---",) * len(COLUMNS)), *map(row, members)]
        parts.append(f"## {title}\n\n```{{container}} keys\n\n" + "\n".join(rows) + "\n```\n")
        if table == f"fault.{EACH}":
            parts.append(kinds_of_faults())
    return "\n".join(parts)


if __name__ == "__main__":
    print(page(), end="")
