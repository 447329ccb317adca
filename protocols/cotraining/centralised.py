"""One party holds the points of all, and learns from them: what co-training would be measured against if it could be.

It is `local` with a single client, which scenarios make of all clients.
"""

from protocols.cotraining.local import Nothing
from protocols.cotraining.local_training import CotrainingMethod, Together
from protocols.cotraining.options import Options

__all__ = ["centralised"]


def centralised(options: Options) -> CotrainingMethod:
    """The method."""
    return CotrainingMethod(Nothing(), Together())
