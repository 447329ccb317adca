"""The command `tacit audit-sum`: compares each round's aggregate with the exact one over its survivors."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacit.scenarios.command import stopping
from tacit.scenarios.command.options import Debug, Plugins, Seed, Set, Trust

if TYPE_CHECKING:
    from rich.console import Console

    from tacit.protocols.auditing.findings import Audit, Row

__all__ = ["audit_sum"]

_LONG = 30
"""The length in characters from which on a repeated reason is printed only once."""


def audit_sum(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE", help="Folder or Python file of a Flower app; scenario file or name; or file of a plugin."
        ),
    ],
    mod: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="App's secure mod, or none (default: the outermost one that hides updates)."),
    ] = None,
    rule: Annotated[
        str | None,
        typer.Option(metavar="RULE", help="How the app aggregates: weighted-mean, mean, weighted-sum or sum."),
    ] = None,
    lose: Annotated[int, typer.Option(metavar="N", min=1, help="Number of clients to lose at a time.")] = 1,
    clients: Annotated[
        int | None, typer.Option(metavar="N", min=2, help="Number of clients (default: the source's, else 6).")
    ] = None,
    run_config: Annotated[
        str | None, typer.Option(metavar="TEXT", help='Same as for flwr run, such as "num-server-rounds=2".')
    ] = None,
    seed: Seed = None,
    changes: Set = None,
    json_file: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="Write all rows to FILE (-: print them).")
    ] = None,
    plugin: Plugins = None,
    trust: Trust = False,
    debug: Debug = False,
) -> int:
    """Compare each round's secure sum with the exact one over its survivors, calm and under losses.

    A Flower app also runs without its secure mod. The exit code is 1 if an aggregate is wrong.
    """
    from tacit.scenarios.auditing.audit import audit
    from tacit.scenarios.console import printing
    from tacit.scenarios.schema.scenario import ScenarioError

    console, notes = printing.make_console(), printing.make_console(stderr=True)
    stopping.interrupt_work()

    def watch(done: int, of: int, words: str) -> None:
        if notes.is_terminal:
            printing.print_lines(notes, [f"run {done + 1}{f' of {of}' if of else ''}: {words}"])

    found = audit(
        source,
        mod=mod,
        rule=rule,
        at_once=lose,
        clients=clients,
        run_config=run_config,
        seed=seed,
        changes=changes or (),
        watch=watch,
    )
    if json_file == "-":
        typer.echo(_json(found), nl=False)
    else:
        _print(console, found)
        if json_file is not None:
            Path(json_file).write_text(_json(found), encoding="utf-8")
    if not found.compared:
        why = next((row.reason for row in found.rows if row.reason), "there was no round")
        raise ScenarioError(source, "", f"nothing was compared: {why}")
    return 1 if found.findings else 0


def _json(audit: "Audit") -> str:
    import msgspec

    record = msgspec.to_builtins(audit) | {"wrong": len(audit.findings), "compared": len(audit.compared)}
    return msgspec.json.format(msgspec.json.encode(record), indent=2).decode() + "\n"


def _print(console: "Console", audit: "Audit") -> None:
    from tacit.scenarios.console import kinds, printing
    from tacit.scenarios.console.table import Column, Table

    head = [f"audit     {audit.subject}"]
    if audit.rule:
        head.append(f"exact     {audit.rule}")
    if audit.mod:
        head.append(f"mod       {audit.mod}")
    printing.print_lines(console, [*head, *(f"NOTE      {note}" for note in audit.notes), ""])
    mods = ("mod",) if audit.mod else ()
    few = kinds.significant(2)
    columns = (
        "losses", *mods, Column("round", kinds.COUNT), Column("aggregate", priority=1),
        Column("survivors", kinds.FIGURE), Column("error", few), Column("bound", few, priority=0), "verdict",
    )  # fmt: skip
    runs = [(row.losses, row.mod) for row in audit.rows]
    table = Table(columns, grouped=(1 + len(mods)) * (len(set(runs)) < len(runs)))
    said: set[str] = set()
    for row in audit.rows:
        with_mod = ("with" if row.mod else "without",) if audit.mod else ()
        survivors = f"{row.survivors}/{row.called}" if row.called else None
        figures = (row.round, row.aggregate or None, survivors, row.error, row.bound)
        table.rows.append((row.losses, *with_mod, *figures, _verdict(row, again=row.reason in said)))
        said.add(row.reason)
    printing.print_table(console, table)
    wrong, compared = len(audit.findings), len(audit.compared)
    if not compared:
        return
    conclusion = f"WRONG     {wrong} of {compared} aggregates" if wrong else f"ok        all {compared} aggregates"
    others = len(audit.rows) - compared
    more = f"; {others} round{'s' * (others > 1)} without one" if others else ""
    printing.print_lines(console, [f"{conclusion} compared{more}"])


def _verdict(row: "Row", *, again: bool) -> str:
    reason = "for the same reason" if again and len(row.reason) > _LONG else row.reason
    return f"{row.status.upper() if row.status == 'wrong' else row.status}{': ' * bool(reason)}{reason}"
