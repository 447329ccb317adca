"""FedSiam: a siamese pair of networks at each client, held together on unlabeled points.

Long et al., FedSiam: Towards adaptive federated semi-supervised learning, 2020 (`parties.learning.fedsiam` says what is
left out). Both networks travel.
"""

from parties.learning.fedsiam import FedSiam
from protocols.federated.method import Averaged, Method, Options

__all__ = ["fedsiam"]


def fedsiam(options: Options) -> Method:
    """A target network, no pseudo-labels."""
    return Method(additions=((FedSiam(), Averaged),))
