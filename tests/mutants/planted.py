"""Twenty bugs to plant, one at a time, to test if chaos and the tests find them (`make mutants`).

`unseen` has thirty-one more.
"""

from dataclasses import dataclass

__all__ = ["PLANTED", "Bug"]


@dataclass(frozen=True)
class Bug:
    """A bug that replaces the text `before`, which occurs once in `file`, by `after`.

    `configuration`: the one of `tacit chaos --broad` whose runs execute the code, with the necessary `changes`; "" if
    chaos is not to search for it. `tests`: the files of tests that concern it, or single tests (`FILE::TEST`).
    """

    name: str
    file: str
    before: str
    after: str
    configuration: str
    tests: tuple[str, ...]
    changes: tuple[str, ...] = ()


_ROUND = "tests/protocols/federated/test_round.py"

PLANTED = (
    Bug(
        "a copy that is sent again is left out of the ledger",
        "sim/network.py",
        "        self._ledger.count(journey.packet, near.name, far.name, relayed)\n",
        '        if not note.startswith("sent again"):\n'
        "            self._ledger.count(journey.packet, near.name, far.name, relayed)\n",
        "fedavg, secure, lossy",
        ("tests/sim/test_network.py", "tests/sim/test_network_machine.py"),
    ),
    Bug(
        "what a crashed party had still to send goes out",
        "sim/endpoint.py",
        "        self.sends.clear()\n",
        "",
        "xclp, direct, shamir, mesh, datagram",
        ("tests/sim/test_network_machine.py", "tests/parties/test_faults_of_parties.py"),
    ),
    Bug(
        "what a link kept goes on in the reverse order",
        "sim/network.py",
        "        for go_on in barrier.take():\n",
        "        for go_on in list(barrier.take())[::-1]:\n",
        "fedavg, secure, star",
        ("tests/parties/test_faults_of_links.py", "tests/sim/test_network_machine.py"),
    ),
    Bug(
        "a fault strikes each time from its occurrence on",
        "sim/triggers.py",
        "                applies = count - (earlier if fault.round else 0) == (fault.occurrence or 1)\n",
        "                applies = count - (earlier if fault.round else 0) >= (fault.occurrence or 1)\n",
        "fedavg, plain, star",
        ("tests/sim/test_triggers.py", "tests/parties/test_faults_of_parties.py"),
    ),
    Bug(
        "messages of an earlier attempt are taken",
        "parties/mailbox.py",
        "        return (frame.round, frame.attempt) < self.stamp and not is_lasting(frame)\n",
        "        return frame.round < self.stamp[0] and not is_lasting(frame)\n",
        "xclp, plaintext, restart, star, three rounds",
        ("tests/parties/test_waiting.py", "tests/parties/test_rejoin.py"),
    ),
    Bug(
        "a deadline passes during a pause",
        "parties/waiting.py",
        "        if self._owner.paused:\n            self._owner.after_pause(self._pass_deadline)\n        else:\n"
        "            self._in_time = False\n            self.wake()\n",
        "        self._in_time = False\n        self.wake()\n",
        "xclp, plaintext, restart, star, three rounds",
        ("tests/parties/test_waiting.py", "tests/parties/test_faults_of_parties.py"),
    ),
    Bug(
        "a party that is back draws the same secrets as before",
        "parties/party.py",
        "self.world.entropy(self.name, self.incarnation, self.round, self.attempt, *names)",
        "self.world.entropy(self.name, 1, self.round, self.attempt, *names)",
        "fedavg, secure, star",
        ("tests/parties/test_crashes.py", "tests/parties/test_rejoin.py", "tests/protocols/test_secure_sum.py"),
    ),
    Bug(
        "an answer to a later enrolment is ignored",
        "protocols/rounds/rounds.py",
        "            self.enrolled = self.enrolled | answers  #",
        "            self.enrolled = self.enrolled or answers  #",
        "fedavg, plain, star",
        (_ROUND,),
    ),
    Bug(
        "a survivor is dropped from the average where somebody was lost",
        "protocols/federated/fedavg.py",
        "        weights = [update.weight for update in trained.values()]\n",
        "        weights = [one.weight * (not missing or name != min(trained)) for name, one in trained.items()]\n",
        "fedavg, plain, star",
        (_ROUND, "tests/protocols/federated/test_overselection.py"),
    ),
    Bug(
        "models weigh alike, and what goes beside them by its points",
        "protocols/federated/round.py",
        "        return Expected(layouts, (True, *(companion.weighted for companion in companions)))\n",
        "        return Expected(layouts, (False, *(not companion.weighted for companion in companions)))\n",
        "scaffold, secure, star",
        (_ROUND, "tests/protocols/federated/test_references.py"),
        ("training.weighting=points", "data.partition=dirichlet:0.5", "data.limit=120"),
    ),
    Bug(
        "a pair mask with a client that was lost is left in",
        "protocols/crypto/dealt_secrets.py",
        "            if k in left:\n",
        "            if k in left or k == attempt.names[-1]:\n",
        "fedavg, secure, star",
        ("tests/protocols/test_secure_sum.py", "tests/protocols/test_rowsums_shamir.py"),
    ),
    Bug(
        "a share of the seed is revealed of one who was lost",
        "protocols/sums/dealing.py",
        "held = ((name in left, ",
        "held = ((name in self.names, ",
        "fedavg, secure, star",
        ("tests/protocols/test_secure_sum.py", "tests/protocols/test_rowsums_shamir.py"),
    ),
    Bug(
        "a change is measured from the model of another round",
        "protocols/federated/fedbuff.py",
        "            (one.model, self.versions[one.call.version], one.weight",
        "            (one.model, self.versions[self.version], one.weight",
        "fedbuff, star",
        ("tests/protocols/federated/test_fedbuff.py",),
    ),
    Bug(
        "the latest deadline of those at work is waited for, not the first",
        "protocols/federated/fedbuff.py",
        "        until = min(call.until for call in self.at_work.values())\n",
        "        until = max(call.until for call in self.at_work.values())\n",
        "fedbuff, mesh, datagram, three at work",
        ("tests/protocols/federated/test_fedbuff.py",),
    ),
    Bug(
        "a consensus is made of fewer answers than are needed",
        "protocols/cotraining/round.py",
        '            require(len(counted), "clients with predictions", settings.min_clients)\n',
        '            require(len(counted), "clients with predictions", 1)\n',
        "fedct",
        ("tests/protocols/cotraining/test_round.py", "tests/scenarios/test_cotraining.py"),
        ("training.min_clients=3",),
    ),
    Bug(
        "an answer with other noise is released a second time",
        "protocols/ledger.py",
        "number > me.round or (number == me.round and digest != entry[1])",
        "number > me.round",
        "dp-fedct",
        ("tests/protocols/test_ledger.py",),
    ),
    Bug(
        "a client masks a second time in one attempt",
        "parties/party.py",
        "        if now <= self.latest(what):\n",
        "        if now < self.latest(what):\n",
        "xclp, plaintext, shamir, mesh, three rounds",
        ("tests/protocols/test_refusals.py",),
    ),
    Bug(
        "the labels of an earlier round are reported",
        "protocols/xclp/xclp.py",
        "        if number == self.last_round:\n",
        "        if number <= self.last_round:\n",
        "xclp, plaintext, restart, star, three rounds",
        ("tests/scenarios/test_outcomes.py", "tests/scenarios/test_trace.py", "tests/protocols/test_xclp.py"),
    ),
    Bug(
        "chaos excuses a client for good that a fault struck once",
        "scenarios/chaos/excused.py",
        "            self.until[party] = max(until, self.until.get(party, -math.inf))\n",
        "            self.until[party] = math.inf\n",
        "fedavg, plain, star",
        ("tests/chaos/test_planted_bugs.py", "tests/chaos/test_rounds.py", "tests/chaos/test_replays.py"),
    ),
    Bug(
        "a checkpoint is written a round late",
        "scenarios/running/checkpoint.py",
        "        is_due = number >= self._due and number != self._simulation.round[1]\n",
        "        is_due = number > self._due and number != self._simulation.round[1]\n",
        "fedavg, plain, star",
        ("tests/scenarios/test_resume.py",),
    ),
)
