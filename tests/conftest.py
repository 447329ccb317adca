"""What all tests need."""

import gc
import signal
import warnings
from collections.abc import Iterator

import pytest

# A shell starts what runs in its background with Ctrl-C ignored, and so would be the tests of Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def clean_end(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fails if anything is logged or warned of, or an exception goes unnoticed, until all garbage is collected."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        yield
        gc.collect()
    assert [str(warning.message) for warning in warned] == []
    assert caplog.messages == []
