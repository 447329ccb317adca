"""The format of ``run.sqlite``: its tables, the public views, and the meaning of each column.

The documentation's page on the format is generated from this file.
"""

from dataclasses import dataclass

__all__ = ["FORMAT", "SCHEMA", "TABLES", "VIEWS", "VIEW_OF", "Table", "View"]

FORMAT = 2
"""The number of the format, stored in `PRAGMA user_version`. It grows if a view or one of its columns is removed or
changes its meaning, not if one is added. `tacit.scenarios.running.record_format_1` reads the previous format."""


@dataclass(frozen=True)
class Table:
    """A table, or the shared part of a view: its name, its content, and its columns with their meanings."""

    name: str
    what: str
    columns: tuple[tuple[str, str, str], ...]
    """The name, the SQL type and the meaning of each column."""

    @property
    def statement(self) -> str:
        """The SQL statement that creates it."""
        return f"CREATE TABLE {self.name} ({', '.join(f'{_quoted(name)} {kind}' for name, kind, _ in self.columns)})"


@dataclass(frozen=True)
class View(Table):
    """A view, defined by its `query`, whose columns are named by `columns`."""

    query: str = ""

    @property
    def statement(self) -> str:
        return f"CREATE VIEW {self._head} AS {self.query}"

    @property
    def common(self) -> str:
        """The SQL that defines the view inside a query, over the query's ``events``."""
        return f"{self._head} AS ({self.query})"

    @property
    def _head(self) -> str:
        return f"{self.name} ({', '.join(_quoted(name) for name, _, _ in self.columns)})"


def _quoted(name: str) -> str:
    return f'"{name}"' if name == "left" else name


_MESSAGE = (
    ("protocol", "TEXT", "the protocol that the message type belongs to"),
    ("step", "TEXT", "the step in which the sender sent it"),
    ("type", "TEXT", "the type of the message"),
    ("round", "INTEGER", "the round in which the sender sent it, from 1"),
    ("attempt", "INTEGER", "the attempt within the round"),
)
_BYTES = (
    ("payload", "INTEGER", "bytes of one copy: what a protocol's formulas count"),
    ("sealing", "INTEGER", "bytes of one copy: nonce and tag of an end-to-end seal"),
    ("envelope", "INTEGER", "bytes of one copy: the rest, frame and TLS records"),
)

_EVENT = (
    ("n", "INTEGER PRIMARY KEY", "the number of the event in the file, from 1; waits are counted, too"),
    ("time", "REAL", "virtual seconds"),
    ("kind", "TEXT", "what happened"),
    ("party", "TEXT", "to whom; of a hop its sender; of other events of messages the message's sender"),
    ("peer", "TEXT", "of a hop or message its receiver; of a fault of links the other side"),
    *_MESSAGE,
    *_BYTES,
    ("note", "TEXT", "the event in words, as they are in the trace hash; no fact is in it alone"),
    (
        "value",
        "REAL",
        "of a metric its value; of a job its seconds; of a hop in a large sized run, where it is above 1, how many "
        "messages alike the row is of",
    ),
    ("message", "INTEGER", "the message's number, from 1; else 0"),
    ("copy", "INTEGER", "the number of the copy; a message's first copy has the message's number"),
    ("hop", "INTEGER", "1, or 2 from the relay on; 0 where it is no message"),
    ("sender", "TEXT", "who sent the message, end to end"),
    ("receiver", "TEXT", "to whom, end to end"),
    ("digest", "BLOB", "SHA-256 of the message's bytes"),
    (
        "fact",
        "TEXT",
        "what happened, where `kind` leaves that open: of `send` and `relay` `again` or `copy`; of `drop` `copy`; of "
        "`refuse` `late`; of `fault` the state that begins (`down`, `paused`, `slow`, `cut`, `held`), `over`, "
        "`strikes` (a message) or `disconnected`; of `metric` `lost`, `refused`, `gone`, `back`, `sleeps` or `chosen`; "
        "else empty",
    ),
    (
        "detail",
        "TEXT",
        "of a fault its kind, of `over` the state that has ended; of `lost` what is done about it; of `refused` what; "
        "of `gone` how the server learns it; of a refused message why; else empty",
    ),
    (
        "number",
        "INTEGER",
        "of a job its number among the party's jobs in this step, from 1; of `again` the number of the copy among "
        "those sent again; else 0",
    ),
)

TABLES = (
    Table(
        "run",
        "What the run is, by `key`: `tacit` (the version), `scenario` (its name), `title`, `seed`, `protocol`, "
        "`fidelity`, `transport`, `score` (the metric that stands for the whole: `accuracy`, or that of the task); and "
        "`folder`, where this folder was as the run began. Once it has ended also "
        "`outcome`, `reason`, `ended_by` (JSON with the facts of the reason, as in `result.json`) and "
        "`virtual_seconds`, which a run that goes on, or was killed, lacks.",
        (("key", "TEXT PRIMARY KEY", "what"), ("value", "", "its value")),
    ),
    Table(
        "files",
        "The files that were in the folder before the run began: the scenario and its code.",
        (("path", "TEXT PRIMARY KEY", "the path in the folder"), ("sha256", "TEXT", "SHA-256 of it, in hexadecimal")),
    ),
    Table(
        "event_rows",
        "The events as they are stored; the view `events` gives them. `sender` and `receiver` are NULL where they are "
        "`party` and `peer`.",
        _EVENT,
    ),
    Table(
        "wait_begins",
        "A row for each wait, as it begins; the view `waits` gives it with its end.",
        (
            ("n", "INTEGER PRIMARY KEY", "the number of the event in the file"),
            ("wait", "INTEGER", "the wait's number, from 1"),
            ("time", "REAL", "virtual seconds"),
            ("party", "TEXT", "who waits"),
            ("step", "TEXT", "in which step"),
            ("round", "INTEGER", "its round"),
            ("attempt", "INTEGER", "its attempt"),
            ("types", "TEXT", "message types waited for, separated by blanks"),
            ("sources", "TEXT", "from whom, names separated by blanks"),
            ("deadline", "REAL", "how many virtual seconds it lasts at most"),
        ),
    ),
    Table(
        "wait_ends",
        "A row for each wait that has ended.",
        (
            ("n", "INTEGER PRIMARY KEY", "the number of the event in the file"),
            ("wait", "INTEGER", "the wait's number"),
            ("time", "REAL", "virtual seconds"),
            ("how", "TEXT", "see the view `waits`"),
            ("missing", "TEXT", "from whom more was still waited for, names separated by blanks"),
            ("silent", "TEXT", "those of them from whom it had received nothing"),
            ("last", "TEXT", "whose message was received last"),
            ("alone", "REAL", "seconds between that message and the last one of anybody else, or the beginning"),
        ),
    ),
    Table(
        "ended_rounds",
        "A row for each round, as it ends; the view `rounds` adds accuracy and bytes.",
        (
            ("n", "INTEGER", "the last event before its end"),
            ("round", "INTEGER", "its number"),
            ("began", "REAL", "virtual seconds"),
            ("ended", "REAL", "virtual seconds; NULL if the run ended before it did"),
            ("cohort", "TEXT", "who was called, names separated by blanks"),
            ("answered", "TEXT", "whose answer the result contains"),
            ("problem", "TEXT", "why the round was lost; empty if it was not"),
            ("called", "INTEGER", "how many clients were called"),
            ("answers", "INTEGER", "how many answers the result contains"),
        ),
    ),
    Table(
        "final_losses",
        "The losses as `result.json` has them, written when the run ends; the view `losses` gives them.",
        (
            ("time", "REAL", "virtual seconds"),
            ("round", "INTEGER", "in which round"),
            ("party", "TEXT", "who was lost"),
            ("step", "TEXT", "where"),
            ("action", "TEXT", "what was done about it"),
        ),
    ),
    Table(
        "contents",
        "What was received, of the message types that an [attack] of the scenario needs; else empty.",
        (
            ("time", "REAL", "virtual seconds"),
            ("sender", "TEXT", "who sent it"),
            ("receiver", "TEXT", "who received it"),
            ("type", "TEXT", "the type of the message"),
            ("round", "INTEGER", "the sender's round"),
            ("attempt", "INTEGER", "the sender's attempt"),
            ("frame", "BLOB", "the bytes (sim/wire.py)"),
        ),
    ),
)

_OF_HOPS = "payload + sealing + envelope"

ALIKE = "max(1, CAST(value AS INTEGER))"
"""SQL for the number of equal messages that one row of a hop stands for."""

VIEWS = (
    View(
        "events",
        "Every event but waits, in the order in which it happened. `kind` is `send` or `relay` (a hop begins), "
        "`deliver`, `lose`, `drop` (a copy ends), `resend` (TCP sends a part of a copy again), `carry` (a copy "
        "was on its link for `value` seconds without the latency; only if energy is counted), `stretch` (a job or, if "
        "energy is counted, the handling of a message held a core `value` seconds longer than at full speed, because "
        "the party was slow), `processor` (a job of a deployed run has ended, which took `value` seconds of processor "
        "time), `refuse` (the program of the receiver drops a message that was delivered: too late, or "
        "unreadable), `enter`, `leave`, `compute`, `fault`, `metric`, `outcome`. Of more than 200 clients enrolment "
        "is recorded by its messages alone: without its steps, the wait before it, and how those ended who were never "
        "called.",
        _EVENT,
        "SELECT n, time, kind, party, peer, protocol, step, type, round, attempt, payload, sealing, envelope, note, "
        "value, message, copy, hop, coalesce(sender, party), coalesce(receiver, peer), digest, fact, detail, number "
        "FROM event_rows",
    ),
    View(
        "messages",
        "One row a message, from its sender to its receiver. `bytes` counts every copy on every hop: in a star what "
        "one client sends another travels twice. Their sum is `bytes_total` of `result.json`.",
        (
            ("message", "INTEGER", "its number, from 1; copies have numbers, too: some are missing"),
            ("sent", "REAL", "virtual seconds"),
            ("received", "REAL", "virtual seconds; NULL if it was not"),
            ("sender", "TEXT", "who sent it, end to end"),
            ("receiver", "TEXT", "to whom, end to end"),
            *_MESSAGE,
            *_BYTES,
            ("hops", "INTEGER", "how often a copy of it went over a link"),
            ("bytes", "INTEGER", "all bytes of all copies on all hops"),
            ("lost", "INTEGER", "how many copies were lost"),
            ("fate", "TEXT", "`received`, `in flight`, `dropped`, or `lost` (so far; it may be sent again)"),
            ("troubles", "TEXT", "why copies were lost or dropped; NULL if none was"),
        ),
        f"""
SELECT message, min(time), max(time) FILTER (WHERE kind = 'deliver'), sender, receiver,
    protocol, step, type, round, attempt, payload, sealing, envelope,
    count(*) FILTER (WHERE kind IN ('send', 'relay')),
    sum({ALIKE} * ({_OF_HOPS})) FILTER (WHERE kind IN ('send', 'relay')),
    count(*) FILTER (WHERE kind = 'lose'),
    CASE WHEN count(*) FILTER (WHERE kind = 'deliver') THEN 'received'
        WHEN count(*) FILTER (WHERE kind = 'send' OR kind = 'relay' AND fact <> '')
            > count(*) FILTER (WHERE kind IN ('lose', 'drop')) THEN 'in flight'
        WHEN count(*) FILTER (WHERE kind = 'drop') THEN 'dropped' ELSE 'lost' END,
    group_concat(DISTINCT CASE WHEN kind IN ('lose', 'drop') THEN note END)
FROM events WHERE message > 0 AND kind IN ('send', 'relay', 'deliver', 'lose', 'drop') GROUP BY message""",
    ),
    View(
        "hops",
        "One row for each copy of a message on each link that it went over.",
        (
            ("message", "INTEGER", "the message's number"),
            ("copy", "INTEGER", "the number of the copy"),
            ("hop", "INTEGER", "1, or 2 from the relay on"),
            ("sent", "REAL", "virtual seconds"),
            ("ended", "REAL", "virtual seconds, when it arrived or was lost or dropped; NULL while it is on its way"),
            ("sender", "TEXT", "of this hop"),
            ("receiver", "TEXT", "of this hop"),
            *_MESSAGE,
            *_BYTES,
            ("bytes", "INTEGER", "all of these"),
            ("note", "TEXT", "of a further copy why: `sent again: 1`, `a second copy`"),
            ("fate", "TEXT", "`arrived`, `lost`, `dropped`, or `in flight`"),
            ("why", "TEXT", "why it was lost or dropped"),
            (
                "fact",
                "TEXT",
                "of a further copy `again` or `copy`; of a dropped second one `copy`; else empty",
            ),
        ),
        f"""
SELECT s.message, s.copy, s.hop, s.time, e.time, s.party, s.peer, s.protocol, s.step, s.type, s.round, s.attempt,
    s.payload, s.sealing, s.envelope, s.{_OF_HOPS.replace(" + ", " + s.")}, s.note,
    CASE e.kind WHEN 'lose' THEN 'lost' WHEN 'drop' THEN 'dropped' WHEN 'deliver' THEN 'arrived'
        WHEN 'relay' THEN 'arrived' ELSE 'in flight' END,
    CASE WHEN e.kind IN ('lose', 'drop') THEN e.note ELSE '' END,
    CASE WHEN e.kind IN ('lose', 'drop') THEN e.fact ELSE s.fact END
FROM events s LEFT JOIN events e ON e.copy = s.copy AND e.n > s.n
    AND (e.kind IN ('deliver', 'lose', 'drop') AND e.hop = s.hop OR e.kind = 'relay' AND s.hop = 1)
WHERE s.kind IN ('send', 'relay')""",
    ),
    View(
        "steps",
        "One row for each time that a party was in a step.",
        (
            ("party", "TEXT", "who"),
            ("step", "TEXT", "the step"),
            ("round", "INTEGER", "the round that the party was in as it entered"),
            ("attempt", "INTEGER", "the attempt within the round"),
            ("entered", "REAL", "virtual seconds"),
            ("left", "REAL", "virtual seconds; NULL if it never left, or has not yet"),
        ),
        """
SELECT party, step, round, attempt, time, CASE next WHEN 'leave' THEN then_time END FROM (
    SELECT *, lead(kind) OVER taken AS next, lead(time) OVER taken AS then_time FROM events
    WHERE kind IN ('enter', 'leave') WINDOW taken AS (PARTITION BY party, step ORDER BY n)
) WHERE kind = 'enter'""",
    ),
    View(
        "waits",
        "One row for each time that a party waited for messages that were not there yet.",
        (
            ("party", "TEXT", "who waited"),
            ("step", "TEXT", "in which step"),
            ("round", "INTEGER", "its round"),
            ("attempt", "INTEGER", "its attempt"),
            ("types", "TEXT", "message types waited for, separated by blanks"),
            ("sources", "TEXT", "from whom, names separated by blanks"),
            ("began", "REAL", "virtual seconds"),
            ("deadline", "REAL", "how many virtual seconds it was to last at most"),
            ("ended", "REAL", "virtual seconds; NULL if it has not"),
            (
                "how",
                "TEXT",
                "`answered`, `deadline`, `until` (another message was received), `interrupted`, `cancelled`",
            ),
            ("missing", "TEXT", "from whom more was still waited for then"),
            ("silent", "TEXT", "those of them from whom it had received nothing"),
            ("last", "TEXT", "whose message was received last"),
            ("alone", "REAL", "seconds between that message and the last one of anybody else, or the beginning"),
        ),
        """
SELECT b.party, b.step, b.round, b.attempt, b.types, b.sources, b.time, b.deadline, e.time, e.how, e.missing, e.silent,
    e.last, e.alone
FROM wait_begins b LEFT JOIN wait_ends e ON e.wait = b.wait""",
    ),
    View(
        "computing",
        "One row a job, as it begins.",
        (
            ("party", "TEXT", "whose job"),
            ("step", "TEXT", "in which step"),
            ("n", "INTEGER", "counts the party's jobs in this step from 1"),
            ("began", "REAL", "virtual seconds"),
            ("seconds", "REAL", "virtual seconds of one core; it takes longer while the party is slowed or paused"),
        ),
        "SELECT party, step, number, time, value FROM events WHERE kind = 'compute'",
    ),
    View(
        "faults",
        "What faults did, and when that ended: crashes, returns, partitions that begin and heal, messages affected.",
        (
            ("time", "REAL", "virtual seconds"),
            ("party", "TEXT", "to whom; of a message the sender"),
            ("peer", "TEXT", "the other side of a link; of a message the receiver"),
            ("step", "TEXT", "the step that the party was in"),
            ("type", "TEXT", "of a message its type"),
            ("message", "INTEGER", "of a message its number, else 0"),
            ("note", "TEXT", "what it did"),
            (
                "phase",
                "TEXT",
                "`begins`, `ends` (a state of the party or its links), `strikes` (a message), or empty",
            ),
            ("state", "TEXT", "the state: `down`, `paused`, `slow`, `cut`, `held`; empty if it strikes a message"),
            ("fault", "TEXT", "as it begins or strikes, the kind of the fault; else empty"),
        ),
        """
SELECT time, party, peer, step, type, message, note,
    CASE fact WHEN 'over' THEN 'ends' WHEN 'strikes' THEN 'strikes' WHEN 'disconnected' THEN '' ELSE 'begins' END,
    CASE fact WHEN 'over' THEN detail WHEN 'strikes' THEN '' WHEN 'disconnected' THEN '' ELSE fact END,
    CASE fact WHEN 'over' THEN '' ELSE detail END
FROM events WHERE kind = 'fault'""",
    ),
    View(
        "losses",
        "Who was lost. While the run goes: whom the server has missed so far, and the step that the server was in. "
        "Once it has ended: as in `result.json`, with those that the server did not notice, and the step in which each "
        "fell.",
        (
            ("time", "REAL", "virtual seconds"),
            ("round", "INTEGER", "in which round"),
            ("party", "TEXT", "who was lost"),
            ("step", "TEXT", "where"),
            ("action", "TEXT", "what was done about it"),
        ),
        """
SELECT time, round, party, step, action FROM final_losses
UNION ALL SELECT time, round, party, step, detail FROM events
WHERE kind = 'metric' AND fact = 'lost' AND NOT EXISTS (SELECT 1 FROM run WHERE key = 'outcome')""",
    ),
    View(
        "rounds",
        "One row for each round that has ended, and at the end of the run for one that was never ended. Bytes are "
        "those of messages that were sent in the round, on all hops.",
        (
            ("round", "INTEGER", "its number, from 1"),
            ("began", "REAL", "virtual seconds"),
            ("ended", "REAL", "virtual seconds; NULL if the run ended before it did"),
            ("seconds", "REAL", "virtual seconds that it took"),
            ("called", "INTEGER", "how many clients were called"),
            ("answers", "INTEGER", "how many answers its result contains"),
            (
                "accuracy",
                "REAL",
                "of the model after it; NULL where it was not measured then, or the task has another score",
            ),
            ("messages", "INTEGER", "how often a message went over a link"),
            ("bytes", "INTEGER", "all bytes of these"),
            ("problem", "TEXT", "why the round was lost; empty if it was not"),
            ("cohort", "TEXT", "who was called, names separated by blanks"),
            ("answered", "TEXT", "whose answer the result contains: whose model is averaged, whose labels count"),
        ),
        f"""
SELECT r.round, r.began, r.ended, r.ended - r.began, r.called, r.answers, a.value,
    coalesce(m.hops, 0), coalesce(m.bytes, 0), r.problem, r.cohort, r.answered
FROM ended_rounds r
LEFT JOIN (SELECT round, value FROM events WHERE kind = 'metric' AND fact = '' AND note = 'accuracy') a
    ON a.round = r.round
LEFT JOIN (SELECT round, sum({ALIKE}) AS hops, sum({ALIKE} * ({_OF_HOPS})) AS bytes FROM events
    WHERE kind IN ('send', 'relay') GROUP BY round) m ON m.round = r.round""",
    ),
    View(
        "metrics",
        "What was measured as rounds ended, outside of virtual time: loss, accuracy and others.",
        (
            ("time", "REAL", "virtual seconds"),
            ("round", "INTEGER", "after which round"),
            ("party", "TEXT", "whose model"),
            ("name", "TEXT", "what was measured"),
            ("value", "REAL", "its value"),
        ),
        "SELECT time, round, party, note, value FROM events WHERE kind = 'metric' AND fact = ''",
    ),
    View(
        "notices",
        "What programs said of parties: whom the server misses, whom it knows to be gone or back, what a client "
        "refused, when a program slept, and how a sum was set up.",
        (
            ("time", "REAL", "virtual seconds"),
            ("round", "INTEGER", "the round of who says so; 0 where it does not say it"),
            ("party", "TEXT", "of whom"),
            ("step", "TEXT", "in which step"),
            ("fact", "TEXT", "`lost`, `gone`, `back`, `refused`, `sleeps`, `chosen`"),
            ("detail", "TEXT", "what is done about a loss, how it is known that somebody is gone, what is refused"),
            ("seconds", "REAL", "of `sleeps` how long, in virtual seconds; else 0"),
            ("note", "TEXT", "all of it in words"),
        ),
        "SELECT time, round, party, step, fact, detail, value, note FROM events WHERE kind = 'metric' AND fact <> ''",
    ),
    View(
        "refusals",
        "Messages that were delivered and then dropped by the receiver's program: too late, or unreadable.",
        (
            ("time", "REAL", "virtual seconds"),
            ("sender", "TEXT", "who had sent it"),
            ("receiver", "TEXT", "who dropped it"),
            ("step", "TEXT", "the step that the receiver was in"),
            ("type", "TEXT", "the type of the message"),
            ("round", "INTEGER", "the round in which it had been sent"),
            ("attempt", "INTEGER", "the attempt within the round"),
            ("why", "TEXT", "why"),
        ),
        "SELECT time, sender, receiver, step, type, round, attempt, detail FROM events WHERE kind = 'refuse'",
    ),
    View(
        "outcomes",
        "How each client's part ended.",
        (
            ("time", "REAL", "virtual seconds"),
            ("party", "TEXT", "who"),
            ("note", "TEXT", "how"),
        ),
        "SELECT time, party, note FROM events WHERE kind = 'outcome'",
    ),
)

VIEW_OF = {view.name: view for view in VIEWS}
"""The views by their names."""

SCHEMA = "".join(f"{one.statement.strip()};\n" for one in (*TABLES, *VIEWS)) + f"PRAGMA user_version = {FORMAT};\n"
"""The SQL that creates an empty record."""
