"""The site's page of the tables and views of run.sqlite, from scenarios/running/record_format.py.

python docs/run_format.py    prints it
"""

from tacit.scenarios.running.record_format import FORMAT, TABLES, VIEWS, Table

HEAD = f"""\
# The record of a run: run.sqlite

Every run's folder holds `run.sqlite`, an SQLite data base with all that happened. This page is format {FORMAT};
`PRAGMA user_version` gives the number. It grows when a view, or a column of one, is removed or changes its meaning.
Read the views; the tables below them are what Tacit writes, and may change with the number alone.

Tacit also reads folders of format 1, with the same results. A run of format 1 that was broken off cannot be resumed:
`tacit run FOLDER` runs it from the start. A folder of a later format needs the version of Tacit that made it, or a
later one. `format` in `result.json` is the same number. Format 2 differs from format 1 in this:

| format 1 | format 2 |
| --- | --- |
| facts are words of `note` in `events` | `fact`, `detail` and `number` of `events` state them |
| waits are rows of `events`, with other meanings of columns | the view `waits`; `events` has no waits |
| `metrics` has what programs noticed and refused, too | the view `notices` has it |
| `faults` has a text | `faults` also has `phase`, `state` and `fault` |
| `why` of `refusals` begins with the message and its sender | `why` is the reason alone |
| the digests of files are JSON in the table `run` | the table `files` |

- Times are virtual seconds, bytes are those that travel (sim/wire.py). A party is called `server` or `client/N`.
- It is written as the run goes, with a journal ahead (WAL), as a rule within half a second of real time, and others
  may read at any time. A run that is killed leaves all that was written; copy `run.sqlite-wal` with
  it then. Once a run has ended there is one file, unless somebody was reading it just then.
- Events are recorded in the order in which they happened; at equal times that is the order of `n`, which also counts
  the beginnings and ends of waits. The trace hash is of all rows of `events` but those of the kinds `resend`, `carry`,
  `stretch` and `processor`, metrics of rounds and `sleeps`. The columns from `message` to `receiver` and from `fact` on
  are not hashed, and of a step, a loss and a refused message neither are round and attempt.
- Contents of messages are not recorded, but for an [attack]; `digest` is the same for equal ones.
- Not recorded, and so not known: what a party's program did between its events; the queue in which a packet waited for
  bandwidth (a long hop does not say whether latency or the queue made it so); waits of no duration, whose messages were
  there already, and polls without a deadline; why a party sent nothing although it was up and waited for nobody.
"""

QUERIES = (
    (
        "What each party sent, end to end, and what that cost on all links",
        "SELECT sender, count(*) AS messages, sum(payload) AS payload, sum(bytes) AS bytes FROM messages\n"
        "GROUP BY sender ORDER BY bytes DESC",
    ),
    (
        "Bytes by step and message type, as `tacit bytes` has them",
        "SELECT step, type, count(*) AS hops, sum(bytes) AS bytes FROM hops GROUP BY step, type ORDER BY min(sent)",
    ),
    (
        "Messages that were not received, and why",
        "SELECT sent, sender, receiver, type, fate, troubles FROM messages WHERE fate <> 'received' ORDER BY sent",
    ),
    (
        "How long messages of each type took, in the mean and at most",
        "SELECT type, avg(received - sent) AS mean, max(received - sent) AS longest FROM messages\n"
        "WHERE fate = 'received' GROUP BY type ORDER BY longest DESC",
    ),
    (
        "Deadlines that passed, and who was waited for",
        "SELECT ended, party, step, types, missing FROM waits WHERE how = 'deadline' ORDER BY ended",
    ),
    (
        "Who was lost, where, and what was done about it",
        "SELECT time, round, party, step, action FROM losses ORDER BY time",
    ),
    (
        "Each step: when the first party entered it, and when the last one left",
        'SELECT round, step, min(entered) AS first, max("left") AS last, count(DISTINCT party) AS parties FROM steps\n'
        "GROUP BY round, step ORDER BY first",
    ),
    (
        "Virtual seconds of computing by party and step",
        "SELECT party, step, count(*) AS jobs, sum(seconds) AS seconds FROM computing\n"
        "GROUP BY party, step ORDER BY seconds DESC",
    ),
    (
        "Rounds: accuracy, clients called, answers, bytes, virtual time",
        "SELECT round, accuracy, called, answers, bytes, seconds FROM rounds ORDER BY round",
    ),
    (
        "What faults did within a second before each loss or deadline",
        "SELECT f.time, f.party, f.phase, f.note, w.party AS waiting, w.ended FROM faults f JOIN waits w\n"
        "ON w.how = 'deadline' AND f.time BETWEEN w.began - 1 AND w.ended ORDER BY f.time",
    ),
)
"""Ten questions and their queries, which a test carries out."""


def table(one: Table) -> str:
    """A table or view: what it holds, and its columns."""
    rows = [f"| `{name}` | {kind.split()[0].lower() if kind else 'any'} | {what} |" for name, kind, what in one.columns]
    head = f"### `{one.name}`\n\n{one.what}\n\n| column | type | what it says |\n| --- | --- | --- |\n"
    return head + "\n".join(rows) + "\n"


def page() -> str:
    """The whole page."""
    queries = [
        f"{number}. {what}:\n\n   ```sql\n{_indented(sql)}\n   ```\n" for number, (what, sql) in enumerate(QUERIES, 1)
    ]
    python = (
        "In Python, `messages()`, `rounds()`, `steps()` and `events()` of the result of `tacit.run(...)` are pandas\n"
        'DataFrames (extra `frames`), and `frame("losses")` is any view.\n'
        '`pandas.read_sql("SELECT * FROM hops", sqlite3.connect("runs/.../run.sqlite"))` needs no Tacit.\n'
    )
    return "\n".join(
        [
            HEAD,
            "## Views\n",
            *map(table, VIEWS),
            "## Ten queries\n",
            *queries,
            python,
            "## Tables\n",
            *map(table, TABLES),
        ]
    )


def _indented(text: str) -> str:
    return "\n".join(f"   {line}" for line in text.splitlines())


if __name__ == "__main__":
    print(page(), end="")
