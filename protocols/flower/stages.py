"""The steps in which clients of a Flower app answer: one for each category of messages, and SecAgg+'s stages."""

from tacit.protocols.steps import Step

__all__ = ["JOIN", "STAGES", "STEPS"]

JOIN = "flower.join"

STAGES = {
    "flower.train": "a `train` message",
    "flower.evaluate": "an `evaluate` message",
    "flower.query": "a `query` message, or one of the older ways' other messages",
    "flower.setup": "SecAgg+: a client's public keys",
    "flower.share_keys": "SecAgg+: encrypted shares of its secrets",
    "flower.collect_masked_vectors": "SecAgg+: training, and the masked update",
    "flower.unmask": "SecAgg+: shares for taking off the masks",
}
"""The steps, each with the messages that are answered in it.

The names are Flower's. The order numbers them on the wire.
"""

STEPS = (
    Step("client", JOIN, "join the federation: at the start, after coming back, and when asked"),
    Step("server", JOIN, "wait for nodes before the app starts"),
    *(Step("client", name, f"run the client app on {what}") for name, what in STAGES.items()),
    *(
        Step("server", name, f"send {what}, and wait for the replies; each time that the app does")
        for name, what in STAGES.items()
    ),
)
