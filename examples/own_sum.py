"""A secure sum by two servers that do not collude: Prio without proofs.

Each client adds a random mask to its vector. The server gets the masked vector, and the party `helper` the sealed seed
of the mask. The helper returns the sum of the masks of the clients that the server names: not of those whose vector is
lost. If the helper is lost, the round is lost.

| step | message | from -> to | payload |
| --- | --- | --- | --- |
| helper.key | those of `HelperKeys` | | the helper's key of the round, for all clients |
| split.mask | SplitVector | client -> server | d words, and 80 for the sealed seed |
| split.add | SplitSeeds | server -> helper | 80 and its name for each client whose vector was received |
| split.add | MaskSum | helper -> server | d words, and the names of the clients whose masks are in it |
| split.add | SplitDone | server -> each of these | 0 |

Security: semi-honest. The server learns the sum and who is in it, the helper who is in it; together they know each
vector. The helper adds the masks of one set a round, of at least `min_clients` and C + 2 clients. The server relays
the helper's key unchanged: a server that swaps the key can open the seeds.
"""

from tacit import BadValues, HelperKeys, Message, Requests, Step, Sum, Total, add_sum, from_helper, sealed_for


class SplitVector(Message):
    words: bytes
    seed: bytes


class SplitSeeds(Message):
    seeds: dict[str, bytes]


class MaskSum(Message):
    words: bytes
    names: list[str]


class SplitDone(Message):
    pass


class TwoServers(Sum):
    takes = (
        HelperKeys(),
        Step("client", "split.mask", "mask its vector, and seal the seed of the mask for the helper", "mask"),
        Step("server", "split.add", "add the masked vectors, and subtract the sum of their masks"),
        Step("helper", "split.add", "add the masks"),
    )
    requests, masked, has_helper = Requests(SplitDone, ()), (SplitVector,), True
    agrees = sees_all = tolerates_share = False  # clients share no keys, see no names, and any number may be lost
    uses = ()

    def opens(self, called, least, joined, left):
        return float(left >= least)

    def payloads(self, tables, among):
        n, names, words = len(among.names), sum(map(len, among.names)), among.vector_bytes
        return {"SplitVector": n * (words + 80), "SplitSeeds": 80 * n + names, "MaskSum": words + names}

    async def client(self, me, vector, group, settings):
        words = self.words(me, vector, settings)
        if self.may_mask(me):
            with me.step("split.mask"):
                seed = me.entropy("split").bytes(32)
                masked = settings.joined(words + await settings.mask(me, [seed]))
                me.send(me.server, SplitVector(masked, await sealed_for(me, group.helper, seed)))
            await self.requests.next(me, settings.deadline)

    async def server(self, me, group, settings):
        with me.step("split.add"):
            sent = await self.received(
                me, SplitVector, group.names, settings, lambda one: (settings.read(one.words), one.seed)
            )
            me.send("helper", SplitSeeds({name: seed for name, (_, seed) in sent.items()}))
            answer = await from_helper(me, MaskSum, settings.deadline)
            names = self.left_of(me, [*sent], answer.names, settings, "its sealed seed is not valid")
            total = sum((sent[name][0] for name in names), -settings.read(answer.words))
            me.broadcast(names, SplitDone())
        return Total(names, settings.reduced(total), settings.fraction_bits)

    async def helper(self, me, key, settings):
        wanted = await me.recv(SplitSeeds, me.server, 3 * settings.deadline)
        with me.step("split.add"):
            seeds = await key.open(me, wanted.seeds)
            if len(seeds) < self.least_of(settings):
                raise BadValues(f"{len(seeds)} seeds are fewer than {self.least_of(settings)}")
            mask = await settings.mask(me, list(seeds.values()))
            me.send(me.server, MaskSum(settings.joined(mask), list(seeds)))


add_sum("two-servers", "a sum by the server and the party `helper`, which must not collude", TwoServers)
