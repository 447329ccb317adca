"""The tables [[client]], [[link]] and [[host]] of a scenario, for properties that differ between parties."""

from typing import Annotated, Literal

from msgspec import Meta

from tacit.parties.fleet.presets import PRESETS
from tacit.sim.table import Keys

__all__ = ["ClientKeys", "HostKeys", "LinkKeys"]

_RATE = {"unit": "rate"}
_FILE = {"unit": "file"}
_LATENCY = {"unit": "distribution"}
_DRAWN = "`lognormal:MEDIAN,SIGMA` or `uniform:LOW,HIGH`: each client draws its own value with the seed"


class ClientKeys(Keys, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """[[client]]: properties of some clients that override [network] and [device]; later tables override earlier
    ones."""

    name: Annotated[
        str, Meta(description="Clients that the table applies to: `client/3`, or a pattern such as `client/*7`.")
    ] = "client/*"
    share: Annotated[
        Annotated[float, Meta(gt=0, le=1)] | None,
        Meta(
            description=(
                "Share of the clients matching `name` that the table applies to, drawn with the seed. "
                "Tables with a share and the same `name` apply to different clients; their shares must "
                "not exceed 1 in total."
            ),
        ),
    ] = None
    file: Annotated[
        str,
        Meta(
            description=(
                "CSV file of devices; its columns are keys of this table, except `availability`. With a "
                "column `name`, each line acts as a table of its own. Otherwise, each client of this "
                "table draws one line with the seed, in proportion to the column `share` (default: all "
                "lines equally). An empty cell sets nothing."
            ),
            extra=_FILE,
        ),
    ] = ""
    preset: Annotated[
        Literal["", "lan", "wan", "fiber", "4g", "3g", "satellite"],
        Meta(
            description="Network preset, for the keys that the table does not set: "
            + "; ".join(f"`{name}` ({', '.join(one.values.values())})" for name, one in PRESETS.items())
            + ": latency, up, down. Sources: docs/devices.md.",
        ),
    ] = ""
    latency: Annotated[
        str | None,
        Meta(
            description=(
                "One-way latency of each message on the client's link with the server, written as "
                "`network.latency`. Between two clients of a mesh, their own latencies are added; if "
                "neither has one, `network.latency` applies."
            ),
            extra=_LATENCY,
        ),
    ] = None
    up: Annotated[str | None, Meta(description=f"Uplink bandwidth; or {_DRAWN}.", extra=_RATE)] = None
    down: Annotated[str | None, Meta(description=f"Downlink bandwidth; or {_DRAWN}.", extra=_RATE)] = None
    loss: Annotated[
        Annotated[float, Meta(ge=0, lt=1)] | None,
        Meta(
            description=(
                "Probability that the client's link with the server loses a message. Between two clients "
                "of a mesh, the losses of both apply."
            ),
            extra={"unit": "probability"},
        ),
    ] = None
    cores: Annotated[Annotated[int, Meta(ge=1)] | None, Meta(description="Number of cores.")] = None
    speed: Annotated[
        Annotated[float, Meta(gt=0)] | str | None,
        Meta(
            description=f"Speed of a core relative to the machine of the cost table; or {_DRAWN}.",
            extra={"unit": "factor"},
        ),
    ] = None
    availability: Annotated[
        str,
        Meta(
            description=(
                "CSV file with the columns up and down (seconds). The clients are up only in these "
                "intervals; otherwise they are down as after a crash. With a column `trace` before them, the file has "
                "several traces, and each of the clients draws one with the seed."
            ),
            extra=_FILE,
        ),
    ] = ""
    device_class: Annotated[
        str, Meta(description="Name of its class of devices, for the tables of reports and predictions; any text.")
    ] = ""
    radio: Annotated[str, Meta(description="Its radio, as in `device.radio`; `none`: its energy is not counted.")] = ""
    processor: Annotated[
        Annotated[float, Meta(ge=0)] | str | None,
        Meta(description="Its processor, written as `device.processor`; `none`: its energy is not counted."),
    ] = None


class LinkKeys(Keys, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """[[link]]: properties of the links between some pairs of parties, which override [[client]]."""

    party: Annotated[str, Meta(description="One end of the link: a name or a pattern.")]
    peer: Annotated[str, Meta(description="Other end of the link: a name or a pattern.")] = "*"
    one_way: Annotated[bool, Meta(description="Apply only to messages from party to peer.")] = False
    latency: Annotated[
        str | None, Meta(description="One-way latency of each message, written as `network.latency`.", extra=_LATENCY)
    ] = None
    loss: Annotated[
        Annotated[float, Meta(ge=0, lt=1)] | None,
        Meta(description="Probability that the link loses a message.", extra={"unit": "probability"}),
    ] = None


class HostKeys(Keys, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """[[host]]: a machine on which several parties run and whose cores they share."""

    parties: Annotated[
        tuple[str, ...], Meta(min_length=1, description='Names or patterns, such as `["server", "client/*"]`.')
    ]
    cores: Annotated[
        int,
        Meta(
            ge=1,
            description=(
                "Number of cores. If more jobs run at once, all of them take proportionally longer. A "
                "party never runs more jobs at once than it has cores of its own ([device], [[client]]). "
                "The speed of a core remains that of each party."
            ),
        ),
    ]
