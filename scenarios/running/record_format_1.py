"""Reads a record of format 1 as one of the present format: temporary views over its tables, under the present names.

In format 1 most facts were texts in `note`, waits were rows of `events` whose columns had other meanings, and the
digests of files were JSON. No other module knows format 1. Its texts are quoted here as they were, and do not change
with those of later versions.
"""

from tacit.scenarios.running.record_format import VIEWS

__all__ = ["PRESENT"]

_STATES = {"crash": "down", "power": "down", "leave": "down", "pause": "paused", "slow": "slow", "partition": "cut",
           "hold": "held"}  # fmt: skip
"""The state that each kind of fault began, by the kind, which was the first word of its note."""

_ENDS = {"rejoin*": "down", "resume": "paused", "slow ends": "slow", "* heals": "cut", "* is released": "held"}
"""The state that ended, by the pattern of the note on its end."""


def _case(of: str, found: dict[str, str], operator: str = "=") -> str:
    """An SQL expression: the text of the first key that fits `of`; NULL if none does."""
    cases = (f"WHEN {of} {operator} '{key}' THEN '{value}'" for key, value in found.items())
    return f"CASE {' '.join(cases)} END"


_KIND = "substr(note, 1, instr(note || ' ', ' ') - 1)"
_OVER, _BEGUN = _case("note", _ENDS, "GLOB"), _case(_KIND, _STATES)

_FACT = f"""
CASE kind
    WHEN 'send' THEN CASE WHEN note GLOB 'sent again: *' THEN 'again' WHEN note <> '' THEN 'copy' ELSE '' END
    WHEN 'relay' THEN CASE WHEN note GLOB 'sent again: *' THEN 'again' WHEN note <> '' THEN 'copy' ELSE '' END
    WHEN 'drop' THEN CASE note WHEN 'a second copy' THEN 'copy' ELSE '' END
    WHEN 'refuse' THEN CASE WHEN note GLOB '*: late*' THEN 'late' ELSE '' END
    WHEN 'fault' THEN CASE WHEN message > 0 THEN 'strikes' WHEN {_OVER} IS NOT NULL THEN 'over'
        WHEN note = 'the connection is lost' THEN 'disconnected' ELSE coalesce({_BEGUN}, '') END
    WHEN 'metric' THEN CASE WHEN note GLOB 'lost: *' THEN 'lost' WHEN note GLOB 'refused to *' THEN 'refused'
        WHEN note GLOB 'known to be gone*' THEN 'gone' WHEN note = 'present again' THEN 'back'
        WHEN note = 'sleeps' THEN 'sleeps' WHEN note GLOB '*: *' THEN 'chosen' ELSE '' END
    ELSE '' END"""

_DETAIL = f"""
CASE kind
    WHEN 'refuse' THEN CASE WHEN instr(note, ': ') THEN substr(note, instr(note, ': ') + 2) ELSE note END
    WHEN 'fault' THEN CASE WHEN message > 0 THEN {_KIND} ELSE coalesce({_OVER},
        CASE WHEN {_BEGUN} IS NOT NULL THEN {_KIND} END, '') END
    WHEN 'metric' THEN CASE WHEN note GLOB 'lost: *' THEN substr(note, 7)
        WHEN note GLOB 'refused to *' THEN substr(note, 12)
        WHEN note GLOB 'known to be gone: *' THEN substr(note, 19) ELSE '' END
    ELSE '' END"""

_NUMBER = """
CASE kind WHEN 'compute' THEN CAST(note AS INTEGER)
    WHEN 'send' THEN CASE WHEN note GLOB 'sent again: *' THEN CAST(substr(note, 13) AS INTEGER) ELSE 0 END
    WHEN 'relay' THEN CASE WHEN note GLOB 'sent again: *' THEN CAST(substr(note, 13) AS INTEGER) ELSE 0 END
    ELSE 0 END"""


def _count(column: str) -> str:
    return f"CASE {column} WHEN '' THEN 0 ELSE length({column}) - length(replace({column}, ' ', '')) + 1 END"


_TABLES = {
    "event_rows": f"""
SELECT n, time, kind, party, peer, protocol, step, type, round, attempt, payload, sealing, envelope, note, value,
    message, copy, hop, sender, receiver, digest, {_FACT} AS fact, {_DETAIL} AS detail, {_NUMBER} AS number
FROM main.events WHERE kind NOT IN ('wait', 'waited')""",
    "wait_begins": """
SELECT n, message AS wait, time, party, step, round, attempt, type AS types, note AS sources, value AS deadline
FROM main.events WHERE kind = 'wait'""",
    "wait_ends": """
SELECT n, message AS wait, time, type AS how, note AS missing, peer AS silent, sender AS last, value AS alone
FROM main.events WHERE kind = 'waited'""",
    "files": """
SELECT key AS path, value AS sha256 FROM json_each(coalesce((SELECT value FROM main.run WHERE key = 'files'), '{}'))""",
    "run": "SELECT key, value FROM main.run WHERE key <> 'files'",
    "ended_rounds": f"""
SELECT rowid AS rowid, n, round, began, ended, cohort, answered, problem, {_count("cohort")} AS called,
    {_count("answered")} AS answers FROM main.ended_rounds""",
}

PRESENT = "".join(
    [
        *(f"CREATE TEMP VIEW {name} AS {query};\n" for name, query in _TABLES.items()),
        *(one.statement.replace("CREATE VIEW", "CREATE TEMP VIEW", 1) + ";\n" for one in VIEWS),
    ]
)
"""The SQL that makes a connection to a record of format 1 readable as one of the present format."""
