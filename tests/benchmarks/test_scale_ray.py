"""The benchmark of engines by the length of a job."""

from tacit.benchmarks.scale.ray import compared


def test_each_engine_has_a_row_for_each_length() -> None:
    rows = compared(("inline", "auto"), (0.001, 0.002), 0.01)
    assert [(row.engine, row.length, row.jobs) for row in rows] == [
        ("inline", 0.001, 10), ("auto", 0.001, 10), ("inline", 0.002, 5), ("auto", 0.002, 5),
    ]  # fmt: skip
    assert rows[0].speed_up == rows[2].speed_up == 1.0
    assert all(row.seconds > 0 and row.start > 0 for row in rows)
