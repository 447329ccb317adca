"""One party holds the points of all, and learns from them: what co-training would be measured against if it could be.

It is `local` with a single client, which scenarios make of all clients.
"""

from protocols.cotraining.local import Nothing
from protocols.cotraining.options import Options
from protocols.cotraining.study import Method, Together

__all__ = ["centralised"]


def centralised(options: Options) -> Method:
    """The method."""
    return Method(Nothing(), Together())
