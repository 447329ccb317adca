"""What all tests need."""

import signal

# A shell starts what runs in its background with Ctrl-C ignored, and so would be the tests of Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
