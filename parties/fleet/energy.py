"""The energy of clients in a run: of radios by bytes, seconds and technology, of processors by seconds and class.

A radio that sends at u and receives at d Mbit/s takes the power up * u + down * d + base while it is active (Huang et
al., "A Close Examination of Performance and Power Characteristics of 4G LTE Networks", MobiSys 2012, section 5, tables
3 and 4). So a bit costs a fixed energy, and each second in which a transfer of the client lasts costs `base`. A
transfer lasts from the time at which its link takes it until its last byte is through the other end, without the
latency: also while it shares the server's line with others or waits for it, while TCP opens its window, and while
either end is slow or a fault holds the link. A radio that was idle for longer than its tail wakes up first (`wake`);
after each activity it stays on for its tail.

Presets. ``wifi`` and ``3g``: the tables of Huang et al. ``4g``, ``5g`` (low band) and ``5g-mmwave``: the slopes are
least squares over the means by target rate of the data that Narayanan et al. publish with "A Variegated Look at 5G in
the Wild: Performance, Power, and QoE Implications", SIGCOMM 2021 (figure 11: Galaxy S20 Ultra, Verizon, whole phone).
The base, wake-up and tail of ``4g`` are those of Huang et al.; the base of ``5g`` adds what the fitted line of 5G lies
above that of 4G at rate 0 on the same phone.

Processors: the current of a core at its highest frequency in the power profile that Android has for a phone
(`power_profile.xml`: `cpu.core_power`, with `cpu.cluster_power` and `cpu.active` where given), at 3.85 V.

Jobs, and messages that are handled, hold a core, and draw its power, for longer while a fault slows the party down;
those that share the cores of a host draw their part, and stopped ones nothing.

Not counted: the rest of a phone (screen, memory, idle power), the bits of TCP's headers and retransmissions, and the
server.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from msgspec import Struct

from tacit.sim.trace import Event

__all__ = [
    "PROCESSORS",
    "RADIOS",
    "ClassEnergy",
    "ClientEnergy",
    "Energy",
    "EnergyMeter",
    "Power",
    "Processor",
    "Radio",
    "parse_processor",
    "parse_radio",
]


@dataclass(frozen=True)
class Radio:
    """The power of a radio: mW for each Mbit/s `up` and `down`, and mW of base power while it sends or receives.

    `wake`: joules to wake up. `tail`: mW for up to `tail_seconds` after each activity. `source`: the publication.
    """

    up: float
    down: float
    base_up: float
    base_down: float
    wake: float = 0.0
    tail: float = 0.0
    tail_seconds: float = 0.0
    source: str = ""


_HUANG = "Huang et al., MobiSys 2012, tables 3 and 4"
_NARAYANAN = f"Narayanan et al., SIGCOMM 2021, data of figure 11; wake-up and tail: {_HUANG}"
_LTE_BASE, _LTE_REST = 1288.04, (1.2107 * 0.2601, 1060.0, 11.576)

RADIOS = {
    "wifi": Radio(283.17, 137.01, 132.86, 132.86, 0.1244 * 0.0791, 119.3, 0.2381, _HUANG),
    "3g": Radio(868.98, 122.12, 817.88, 817.88, 0.6594 * 0.5821, 803.9, 8.0882, _HUANG),
    "4g": Radio(79.53, 15.02, _LTE_BASE, _LTE_BASE, *_LTE_REST, _NARAYANAN),
    "5g": Radio(32.24, 15.36, _LTE_BASE + 304, _LTE_BASE + 164, *_LTE_REST, _NARAYANAN),
    "5g-mmwave": Radio(9.15, 1.76, _LTE_BASE + 2744, _LTE_BASE + 2502, *_LTE_REST, _NARAYANAN),
}


@dataclass(frozen=True)
class Processor:
    """The `watts` of one busy core, and the publication of the figure."""

    watts: float
    source: str = ""


_VOLTS = 3.85
_PROFILE = "power_profile.xml of LineageOS-based device trees"

PROCESSORS = {
    "phone-fast": Processor(_VOLTS * (366 + 7.6) / 1000, f"OnePlus 8 (Snapdragon 865, 2020), {_PROFILE}"),
    "phone-middle": Processor(_VOLTS * (347.24 + 16.43 + 1) / 1000, f"Poco X3 NFC (Snapdragon 732G, 2020), {_PROFILE}"),
    "phone-slow": Processor(_VOLTS * 166 / 1000, f"Moto G4 Play (Snapdragon 410, 2016), {_PROFILE}"),
}

_RADIO_ALLOWED = f"allowed: {', '.join(RADIOS)}, none, linear:UP,DOWN,BASE (mW per Mbit/s, mW), or with ,TAIL,SECONDS"


def parse_radio(text: str) -> Radio | None:
    """The radio that `text` names; None for ``none`` and "". Raises ValueError in one line."""
    if text in ("", "none"):
        return None
    if text in RADIOS:
        return RADIOS[text]
    kind, colon, rest = text.partition(":")
    try:
        numbers = [float(part) for part in rest.split(",")]
    except ValueError:
        numbers = []
    if kind != "linear" or not colon or len(numbers) not in (3, 5):
        raise ValueError(f'"{text}" is no radio; {_RADIO_ALLOWED}')
    if not all(0 <= number < math.inf for number in numbers):
        raise ValueError(f'"{text}": numbers from 0 on are needed; {_RADIO_ALLOWED}')
    up, down, base, *rest_of = numbers
    tail, seconds = rest_of or (0.0, 0.0)
    return Radio(up, down, base, base, 0.0, tail, seconds)


def parse_processor(value: str | float) -> Processor | None:
    """The processor named `value`, or one with `value` watts a core; None for ``none`` and "". Raises ValueError."""
    if value in ("", "none"):
        return None
    if isinstance(value, str) and value in PROCESSORS:
        return PROCESSORS[value]
    try:
        watts = float(value)
    except ValueError:
        watts = math.nan
    if not 0 <= watts < math.inf:
        raise ValueError(f'"{value}" is no processor; allowed: {", ".join(PROCESSORS)}, none, or the watts of a core')
    return Processor(watts)


@dataclass(frozen=True)
class Power:
    """The radio and processor of a client, for computing its energy.

    `handling` maps the bytes of a message to the CPU seconds of its handling.
    """

    radio: Radio | None
    processor: Processor | None
    handling: Callable[[int], float]


class ClientEnergy(Struct, frozen=True):
    """The energy of a client in joules: its active `radio` including wake-ups, the radio's `tail`, and its
    `processor`."""

    radio: float
    tail: float
    processor: float

    @property
    def joules(self) -> float:
        """The total energy in joules."""
        return self.radio + self.tail + self.processor


class ClassEnergy(Struct, frozen=True):
    """The energy in joules of the `clients` of a device class, by the parts of `ClientEnergy`, and the most of one
    client."""

    device_class: str
    clients: int
    radio: float
    tail: float
    processor: float
    most: float


class Energy(Struct, frozen=True):
    """The energy in joules of all clients, by device class; and of each client, unless there are too many."""

    joules: float
    classes: list[ClassEnergy]
    clients: dict[str, ClientEnergy]


class _Use:
    """The energy of one client so far. `transfer` must be called in the order of time."""

    def __init__(self, power: Power) -> None:
        self.power = power
        self.processor = self._radio = 0.0
        self._active: list[tuple[float, float]] = []  # from when until when the radio was active, in order

    def message(self, size: int, times: int, *, sends: bool) -> None:
        """Count the bits and the handling of `times` messages of `size` bytes, sent or received."""
        power, radio = self.power, self.power.radio
        if power.processor:
            self.processor += power.processor.watts * power.handling(size) * times
        if radio is not None:
            self._radio += 8e-9 * times * size * (radio.up if sends else radio.down)

    def transfer(self, ends: float, seconds: float, *, sends: bool) -> None:
        """Count the time of a transfer that lasted `seconds` and ends now, unless the radio was active anyway."""
        radio = self.power.radio
        if radio is None:
            return
        begins = first = ends - seconds
        counted = 0.0
        while self._active and self._active[-1][1] >= begins:
            earlier, until = self._active.pop()
            counted += until - max(earlier, begins)
            first = min(first, earlier)
        self._active.append((first, ends))
        self._radio += max(0.0, seconds - counted) * (radio.base_up if sends else radio.base_down) / 1000

    def compute(self, seconds: float) -> None:
        """Count a job that takes `seconds` on a core."""
        if self.power.processor:
            self.processor += self.power.processor.watts * seconds

    @property
    def found(self) -> ClientEnergy:
        """The energy so far, with the tail after the last activity."""
        radio, tail = self.power.radio, 0.0
        if radio is not None and self._active:
            rests = [later[0] - sooner[1] for sooner, later in pairwise(self._active)]
            tail = radio.wake * (1 + sum(rest > radio.tail_seconds for rest in rests))
            tail += (sum(min(rest, radio.tail_seconds) for rest in rests) + radio.tail_seconds) * radio.tail / 1000
        return ClientEnergy(self._radio, tail, self.processor)


class EnergyMeter:
    """A sink of a run's events, in order, that counts the energy of clients. `power_of` maps a client to its power.

    `power_of` returns None for a party whose energy is not counted.
    """

    def __init__(self, power_of: Callable[[str], Power | None]) -> None:
        self._power_of = power_of
        self._uses: dict[str, _Use | None] = {}

    def _use(self, party: str) -> _Use | None:
        if party not in self._uses:
            power = self._power_of(party)
            self._uses[party] = None if power is None else _Use(power)
        return self._uses[party]

    def __call__(self, event: Event) -> None:
        """Count an event; events that cost no client energy are ignored."""
        kind = event.kind
        if kind in ("compute", "stretch"):  # the seconds at full speed as a job begins; those of slow work
            if use := self._use(event.party):
                use.compute(event.value)
            return
        if kind == "carry":
            for party, sends in ((event.party, True), (event.peer, False)):
                if party and (use := self._use(party)):
                    use.transfer(event.time, event.value, sends=sends)
            return
        sends = kind in ("send", "relay")
        if (sends or kind == "deliver") and (use := self._use(event.party if sends else event.peer)):
            use.message(event.payload + event.sealing + event.envelope, int(event.value) or 1, sends=sends)

    def found(self) -> dict[str, ClientEnergy]:
        """The energy of each client that used any."""
        return {party: use.found for party, use in self._uses.items() if use}
