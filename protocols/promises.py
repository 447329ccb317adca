"""The promises of protocols that were added; `scenarios.chaos.promises` checks them with the rest."""

from collections.abc import Iterator

from scenarios.chaos.excused import Affected
from scenarios.chaos.trial import Trial

__all__ = ["ends_early_only_for_loss", "who_is_well_counts"]


def ends_early_only_for_loss(trial: Trial, affected: Affected) -> Iterator[str]:
    """A run ends without a result only when the server, or too many clients, were affected by faults."""
    if trial.outcome == "completed" or "server" in affected:
        return
    left = {client.name for client in trial.simulation.clients} - affected.clients
    least = trial.scenario.protocol.min_clients
    if len(left) >= least:
        yield f"{trial.outcome} ({trial.reason}) with {len(left)} clients that nothing affected; {least} are enough"


def who_is_well_counts(trial: Trial, affected: Affected) -> Iterator[str]:
    """A client that no fault affected is among those whose inputs the result is of."""
    if "server" in affected:
        return
    for found in trial.records:
        missing = [
            client.name
            for client in trial.simulation.clients
            if client.name not in affected and client.name not in found.over
        ]
        if missing:
            yield f"the result is without {', '.join(missing)}"
