"""Count the clients in each category. No party learns a client's category, and no client counts twice.

Each client sends a report of Prio3 (draft-irtf-cfrg-vdaf): its category in two shares, one for the server and one for a
second aggregator, the party `helper`, with a proof that it is one category.
"""

from typing import Annotated

import numpy as np
from msgspec import Meta

from tacit import Histogram, Phases, ProtocolKeys, add_protocol


class Keys(ProtocolKeys, kw_only=True, frozen=True):
    categories: Annotated[int, Meta(ge=2, description="Number of categories.")] = 10


def most_frequent(shard):
    return int(np.bincount(shard.labels).argmax())


class Counts(Histogram):
    name = "counts"

    def categories(self, keys):
        return keys.categories

    def category(self, keys, shard, public):
        return most_frequent(shard)


class CountCategories(Phases):
    name, summary = "histogram", "how many clients hold each category, by Prio3 with a helper"
    learned = {"server": "the counts and who is in them", "client": "nothing", "helper": "who is in them"}
    keys, parts, agrees = Keys, (Counts(),), False  # clients need no keys for each other

    def oracle(self, keys, over):
        held = [most_frequent(shard) for shard in over["counts"].values()]
        return {"counts": np.bincount(held, minlength=keys.categories)}


add_protocol(CountCategories())
