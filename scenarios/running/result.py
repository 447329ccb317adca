"""What came out of a run, as ``result.json`` holds it."""

from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from parties.server import Loss
from scenarios.attacking.vulnerability import Vulnerability
from scenarios.files.plugins import PluginFile
from scenarios.observing.privacy import Spent
from scenarios.observing.simulated import Round, Strike

__all__ = ["Result"]


class Result(Struct, kw_only=True):
    """What came out of a run; all but `folder` and `error` is ``result.json``.

    `outcome` is completed, aborted (the server was lost, or too few clients were left), failed (an error, or every
    client was lost) or interrupted (Ctrl-C); `reason` says why, `endings` how each client's part ended. `unmet` holds
    one line for each expectation of the scenario that was not met. `faults` are those that struck, `lost` and `rounds`
    tell of all rounds. Accuracy is a share of the points that `measured_on` names. Of training it is that of the last
    model, whose digest is `model_digest`, and `accuracy_selected` that of the model of `selected_round`, which did best
    on the points held out. `resumed`: the rounds after which a run that was broken off went on, 0 if it began anew.
    Of co-training it is the mean of `client_accuracy`, with their standard `deviation`, and no label of a public point
    changed after round `agreed_after`, null if one changed in the last; `message_bytes` are the payload of one message,
    up, down, and of FedAvg with the same network. XCLP's predictions have `balanced_accuracy` and `balanced_baselines`,
    too: means of such shares over the classes.
    Times are seconds. `messages` and bytes count both hops of a relayed message, and all copies: `sent_again` of them
    are retransmissions, and `messages_lost` tells how many were lost, by the reason. `vulnerability` is there if there
    was an [attack], `privacy` of differentially private protocols, `output` (what the server ended with) of protocols
    of one's own. `plugins`: files of the user's own code, of which copies lie in the run's folder.
    """

    scenario: str
    title: str
    seed: int
    version: str
    fidelity: str
    entropy: str
    engine: str
    outcome: str
    reason: str
    unmet: list[str]
    accuracy: float | None
    measured_on: str = ""
    accuracy_selected: float | None = None
    selected_round: int | None = None
    balanced_accuracy: float | None = None
    deviation: float | None = None
    client_accuracy: dict[str, float] = {}
    agreed_after: int | None = None
    message_bytes: dict[str, int] = {}
    privacy: Spent | None = None
    output: list[float] | None = None
    baselines: dict[str, float]
    balanced_baselines: dict[str, float] = {}
    equals_plaintext: bool | None
    lost: list[Loss]
    faults: list[Strike]
    rounds: list[Round]
    endings: dict[str, str]
    virtual_seconds: float
    wall_seconds: float
    resumed: list[int] = []
    messages: int
    bytes_total: int
    bytes_payload: int
    bytes_sealing: int
    bytes_envelope: int
    sent_again: int = 0
    messages_lost: dict[str, int] = {}
    trace_hash: str
    shape_hash: str
    hamming_digest: str
    labels_digest: str
    model_digest: str = ""
    vulnerability: Vulnerability | None = None
    warnings: list[str]
    plugins: list[PluginFile] = []
    environment: dict[str, Any]
    folder: Path = Path()
    error: BaseException | None = None

    def record(self) -> dict[str, Any]:
        """The content of ``result.json``."""
        names = (name for name in self.__struct_fields__ if name not in ("folder", "error"))
        return {name: msgspec.to_builtins(getattr(self, name)) for name in names}
