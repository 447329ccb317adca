"""Network presets by name, each with the source of its figures.

WebPageTest: `www/settings/connectivity.ini.sample` of the project's repository, the profiles FIOS, 4G and 3G. Numbers
Everyone Should Know: Jeff Dean, "Designs, Lessons and Advice from Building Large Distributed Systems", LADIS 2009. Half
of a round trip is the latency of one way.
"""

from dataclasses import dataclass

__all__ = ["PRESETS", "Preset"]


@dataclass(frozen=True)
class Preset:
    """One-way latency, uplink and downlink rates of a client ("" where the source gives none), and the source."""

    latency: str
    up: str
    down: str
    source: str

    @property
    def values(self) -> dict[str, str]:
        """The keys of a [[client]] table that the preset sets."""
        found = {"latency": self.latency, "up": self.up, "down": self.down}
        return {key: value for key, value in found.items() if value}


_DEAN = "Numbers Everyone Should Know"
_WEB = "WebPageTest, connectivity.ini"

PRESETS = {
    "lan": Preset("250us", "1Gbit/s", "1Gbit/s", f"{_DEAN}: 1 Gbit/s network, round trip within a data centre 0.5 ms"),
    "wan": Preset("75ms", "", "", f"{_DEAN}: packet from California to the Netherlands and back 150 ms; no rate given"),
    "fiber": Preset("2ms", "5Mbit/s", "20Mbit/s", f"{_WEB}: FIOS, 20/5 Mbit/s, round trip 4 ms"),
    "4g": Preset("85ms", "9Mbit/s", "9Mbit/s", f"{_WEB}: 4G, 9 Mbit/s, round trip 170 ms"),
    "3g": Preset("150ms", "768kbit/s", "1.6Mbit/s", f"{_WEB}: 3G, 1.6 Mbit/s and 768 kbit/s, round trip 300 ms"),
    "satellite": Preset(
        "279ms",
        "2.43Mbit/s",
        "19.73Mbit/s",
        "RFC 2488, section 2: one way over a geostationary satellite up to 279 ms; rates: Ookla, How Starlink's "
        "Satellite Internet Stacks Up Against HughesNet and Viasat around the Globe, HughesNet, second quarter of 2021",
    ),
}
