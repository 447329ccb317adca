"""Writes a run as a trace for Perfetto (https://ui.perfetto.dev): `write_trace`."""

from tacit.scenarios.seeing.tracing.run_trace import check_trace, write_trace

__all__ = ["check_trace", "write_trace"]
