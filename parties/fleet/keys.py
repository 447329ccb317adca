"""The tables [[client]], [[link]] and [[host]] of a scenario: what differs from party to party."""

from typing import Annotated, Literal

from msgspec import Meta

from tacit.parties.fleet.presets import PRESETS
from tacit.sim.table import Keys

__all__ = ["ClientKeys", "HostKeys", "LinkKeys"]

_RATE = {"unit": "rate"}
_FILE = {"unit": "file"}
_LATENCY = {"unit": "distribution"}
_DRAWN = "`lognormal:MEDIAN,SIGMA` or `uniform:LOW,HIGH`: each client draws its own, by seed"


class ClientKeys(Keys, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """[[client]]: what some clients have in place of [network] and [device]; later tables come over earlier ones."""

    name: Annotated[str, Meta(description="Whose: `client/3`, or a pattern such as `client/*7`.")] = "client/*"
    share: Annotated[
        Annotated[float, Meta(gt=0, le=1)] | None,
        Meta(
            description="Only this share of the clients that `name` means, drawn by seed. Tables with a share and the "
            "same `name` draw different clients, together at most all.",
        ),
    ] = None
    file: Annotated[
        str,
        Meta(
            description="A CSV of devices, whose columns are keys of this table but for `availability`. With a column "
            "`name` each line is as a table of its own; without it, each client that this table means draws a line, "
            "by seed, with chances in proportion to a column `share`, or all alike. An empty cell says nothing.",
            extra=_FILE,
        ),
    ] = ""
    preset: Annotated[
        Literal["", "lan", "wan", "fiber", "4g", "3g", "satellite"],
        Meta(
            description="An access to the network by name, for the keys that the table does not give: "
            + "; ".join(f"`{name}` ({', '.join(one.values.values())})" for name, one in PRESETS.items())
            + ": latency, up, down. Sources: docs/devices.md.",
        ),
    ] = ""
    latency: Annotated[
        str | None,
        Meta(
            description="One way, of each message on its link with the server, written as `network.latency`. Between "
            "two clients of a mesh the latencies of their own are added; where neither has one, it is "
            "`network.latency`.",
            extra=_LATENCY,
        ),
    ] = None
    up: Annotated[str | None, Meta(description=f"Its uplink; or {_DRAWN}.", extra=_RATE)] = None
    down: Annotated[str | None, Meta(description=f"Its downlink; or {_DRAWN}.", extra=_RATE)] = None
    loss: Annotated[
        Annotated[float, Meta(ge=0, lt=1)] | None,
        Meta(
            description="Chance that a message is lost on its link with the server; between two clients of a mesh on "
            "either's part of the way.",
            extra={"unit": "probability"},
        ),
    ] = None
    cores: Annotated[Annotated[int, Meta(ge=1)] | None, Meta(description="Its cores.")] = None
    speed: Annotated[
        Annotated[float, Meta(gt=0)] | str | None,
        Meta(description=f"Its core beside the machine of the cost table; or {_DRAWN}.", extra={"unit": "factor"}),
    ] = None
    availability: Annotated[
        str,
        Meta(
            description="A CSV with the columns up, down (seconds): each of these clients is up only then, and else "
            "down as after a crash. With a column `trace` before them the file has several traces; each of these "
            "clients draws one, by seed.",
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
    """[[link]]: what the links between some pairs of parties are like, over what [[client]] says."""

    party: Annotated[str, Meta(description="One side: a name or a pattern.")]
    peer: Annotated[str, Meta(description="The other side: a name or a pattern.")] = "*"
    one_way: Annotated[bool, Meta(description="Only what party sends to peer.")] = False
    latency: Annotated[
        str | None, Meta(description="One way, of each message, written as `network.latency`.", extra=_LATENCY)
    ] = None
    loss: Annotated[
        Annotated[float, Meta(ge=0, lt=1)] | None,
        Meta(description="Chance that a message is lost on the link.", extra={"unit": "probability"}),
    ] = None


class HostKeys(Keys, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """[[host]]: a machine on which several parties run and whose cores they share."""

    parties: Annotated[
        tuple[str, ...], Meta(min_length=1, description='Names or patterns, as `["server", "client/*"]`.')
    ]
    cores: Annotated[
        int,
        Meta(
            ge=1,
            description="Its cores. While more jobs go on than that, all of them take longer; no party has more jobs "
            "at a time than cores of its own ([device], [[client]]). The speed of a core stays each party's.",
        ),
    ]
