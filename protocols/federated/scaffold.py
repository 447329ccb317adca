"""SCAFFOLD: control variates at server and clients correct the clients' drift.

Karimireddy et al., SCAFFOLD: Stochastic controlled averaging for federated learning, ICML 2020, Algorithm 1, option II
(`parties.learning.scaffold` gives the formulas). The server sends its control variate beside the model, a client sends
the change of its own: as many bytes again as the trained part of the model, both ways.
"""

from parties.learning.scaffold import Scaffold
from protocols.federated.method import Controls, Extra

__all__ = ["update"]


def update() -> tuple[Extra, ...]:
    """Control variates."""
    return ((Scaffold(), Controls),)
