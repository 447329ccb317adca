"""Equal uploads to one server end when arithmetic says, over each transport."""

import pytest

from tacit.benchmarks.reality.shared import modelled


@pytest.mark.parametrize(
    ("transport", "server", "arithmetic", "over"),
    [
        ("reliable", 32e6, 10.0, 1.01),
        ("reliable", 8e6, 40.0, 1.01),
        ("datagram", 32e6, 10.0, 1.01),
        ("datagram", 8e6, 40.0, 1.01),
        ("tcp", 32e6, 10.0, 1.1),
        ("tcp", 8e6, 40.0, 1.1),
    ],
)
def test_four_uploads_end_when_arithmetic_says(transport: str, server: float, arithmetic: float, over: float) -> None:
    seconds = modelled(transport, 8e6, server, 10_000_000, 0.02)
    assert arithmetic + 0.02 < seconds < over * arithmetic + 0.02


@pytest.mark.parametrize("count", [1, 3, 16])
@pytest.mark.parametrize("transport", ["reliable", "datagram"])
def test_clients_fill_the_line_of_a_server(transport: str, count: int) -> None:
    bits = 8 * 1_001_364  # with the overhead of TLS records
    seconds = modelled(transport, 8e6, 20e6, 1_000_000, 0.02, count)
    assert seconds == pytest.approx(0.02 + max(bits / 8e6, count * bits / 20e6), rel=0.01)
