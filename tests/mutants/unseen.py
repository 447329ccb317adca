"""Bugs of one expression each that no test and no chaos found once, with the tests that now find them.

Chaos does not run on them: its promises do not cover what they break, or its runs reach it too rarely.
"""

from tests.mutants.planted import Bug

__all__ = ["UNSEEN"]

_TRANSPORT, _TCP = "tests/sim/test_transport.py", "tests/sim/test_tcp.py"
_PRESENCE = "tests/parties/test_presence.py"
_FLAMINGO, _LIGHTSECAGG = "tests/protocols/test_flamingo.py", "tests/scenarios/test_lightsecagg.py"
_BITS, _CAUSES = "tests/scenarios/test_value_bits.py", "tests/scenarios/test_causes.py"


def _bug(name: str, file: str, before: str, after: str, *tests: str) -> Bug:
    return Bug(name, file, before, after, "", tests)


UNSEEN = (
    _bug(
        "a wait before a copy is sent again is capped at a minute even if the first was longer",
        "sim/transport.py",
        "max(self._timeout, _LONGEST))",
        "_LONGEST)",
        f"{_TRANSPORT}::test_the_timeout_doubles_up_to_a_minute_or_stays_at_a_longer_first_one",
    ),
    _bug(
        "a connection breaks at the last message that never comes",
        "sim/transport.py",
        "item.number if connection.broken is None else min(connection.broken, item.number)",
        "item.number",
        f"{_TRANSPORT}::test_a_connection_ends_with_its_first_message_that_never_comes",
    ),
    _bug(
        "a new connection waits for messages of the old one",
        "sim/link.py",
        'which belong to an older connection."""\n        self._last = 0.0',
        'which belong to an older connection."""\n        self._last += 0.0',
        f"{_TRANSPORT}::test_a_new_connection_does_not_wait_for_messages_of_the_old_one",
    ),
    _bug(
        "a window that rests is halved once too often",
        "sim/tcp.py",
        "math.ceil(idle / timeout) - 1",
        "math.ceil(idle / timeout)",
        f"{_TCP}::test_an_idle_window_is_halved_for_each_timeout_after_the_first",
    ),
    _bug(
        "segments after the first lost one count as those after the last",
        "sim/tcp.py",
        "count - 1 - lost[-1]",
        "count - 1 - lost[0]",
        f"{_TCP}::test_what_follows_a_lost_segment_decides_when_it_is_sent_again",
    ),
    _bug(
        "a lost segment is sent again behind later messages",
        "sim/tcp.py",
        "flow.unsent.insert(place, item)",
        "flow.unsent.append(item)",
        f"{_TCP}::test_a_lost_segment_is_sent_again_before_later_messages",
    ),
    _bug(
        "a loss halves the window",
        "sim/tcp.py",
        "_BETA, _C = 0.7, 0.4",
        "_BETA, _C = 0.5, 0.4",
        f"{_TCP}::test_a_window_after_a_loss_follows_the_cubic_function",
    ),
    _bug(
        "the end of an earlier incarnation's connection counts",
        "parties/presence.py",
        "        if incarnation < self._incarnations.get(party, 1):\n            return\n",
        "",
        f"{_PRESENCE}::test_the_end_of_an_earlier_connection_says_nothing_of_a_client_that_is_back",
    ),
    _bug(
        "a message under way does not count as a heartbeat",
        "parties/presence.py",
        "                self._heard[name] = self._now\n",
        "                pass\n",
        f"{_PRESENCE}::test_heartbeats_are_awaited_anew_once_a_message_under_way_was_lost",
    ),
    _bug(
        "a wait for clients waits for one too many",
        "parties/presence.py",
        "len(self.gone) < count",
        "len(self.gone) <= count",
        f"{_PRESENCE}::test_a_wait_ends_as_soon_as_enough_clients_are_present",
    ),
    _bug(
        "a resumed run forgets who was gone and is back",
        "parties/presence.py",
        "self.ever = set(ever)",
        "self.ever = set(self.gone)",
        f"{_PRESENCE}::test_the_state_keeps_who_was_gone_at_any_time",
    ),
    _bug(
        "numbers far below the range wrap to 0",
        "protocols/crypto/words.py",
        "scaled <= -bound, -largest, whole",
        "scaled <= -bound, 0, whole",
        "tests/protocols/crypto/test_words.py"
        "::test_values_out_of_range_are_integers_up_to_the_bound_in_both_directions",
    ),
    _bug(
        "a weight is not cut to the largest one",
        "protocols/federated/secure_averages.py",
        "weight = min(int(update.weight), quantised.weight)",
        "weight = int(update.weight)",
        f"{_BITS}::test_a_client_with_more_points_counts_as_one_with_the_largest_weight",
    ),
    _bug(
        "a loss is not clipped",
        "protocols/federated/secure_averages.py",
        "_LOSS_RANGE + min(max(loss, -_LOSS_RANGE), _LOSS_RANGE)",
        "_LOSS_RANGE + loss",
        f"{_BITS}::test_a_loss_beyond_the_range_of_its_words_is_clipped",
    ),
    _bug(
        "models that were not trained count as models of a round",
        "protocols/federated/fedavg.py",
        'require(len(trained), "clients with trained models", settings.min_clients)',
        'require(len(updates), "clients with trained models", settings.min_clients)',
        "tests/protocols/federated/test_round.py::test_only_models_that_were_trained_count_as_models_of_a_round",
    ),
    _bug(
        "a false model takes back the running statistics",
        "protocols/federated/byzantine.py",
        "found[self.numbers :]",
        "began[self.numbers :]",
        "tests/protocols/federated/test_byzantine.py::test_only_trained_numbers_are_false",
    ),
    _bug(
        "values are given again although their first sum may still be opened",
        "protocols/sums/refusal.py",
        "not (done and again_once_done)",
        "not again_once_done",
        "tests/protocols/test_refusals.py"
        "::test_masked_values_of_a_basis_are_given_again_only_once_their_sum_was_reported_as_done",
    ),
    _bug(
        "a helper remembers the last basis only",
        "protocols/sums/reports.py",
        "[*me.disk.get(_BASES, ()), opened.basis]",
        "[opened.basis]",
        "tests/attacks/test_reports.py::test_a_helper_releases_one_sum_for_a_basis_whatever_comes_in_between",
    ),
    _bug(
        "shares of a sum may give twice what reports add up to",
        "protocols/sums/batch.py",
        "<= count * batch.task.most",
        "<= 2 * count * batch.task.most",
        "tests/scenarios/test_prio3.py::test_shares_that_give_more_than_the_reports_can_add_up_to_are_refused",
    ),
    _bug(
        "a share of the decryptors' key always fits",
        "protocols/sums/decryptors.py",
        "        if fits:\n            good[name] = share",
        "        if True:\n            good[name] = share",
        f"{_FLAMINGO}::test_a_share_of_the_key_that_does_not_fit_its_commitments_is_refused",
    ),
    _bug(
        "keys stay although no more decryptors may be lost",
        "protocols/sums/decryptors.py",
        "away <= (spare // 2 if many else 0)",
        "away <= spare",
        f"{_FLAMINGO}::test_keys_of_few_clients_are_made_anew_once_a_decryptor_is_away",
    ),
    _bug(
        "a ciphertext is meant for decryptors of any generation",
        "protocols/sums/round_graph.py",
        "self.number, self.ring.generation, sender, other)",
        "self.number, sender, other)",
        f"{_FLAMINGO}::test_the_context_of_a_ciphertext_names_set_up_round_generation_and_both_ends",
    ),
    _bug(
        "labels may leave a client one neighbour too few",
        "protocols/sums/round_graph.py",
        "(name)))) < degree.threshold:",
        "(name)))) < degree.threshold - 1:",
        f"{_FLAMINGO}::test_labels_leave_each_client_as_many_neighbours_as_the_graph_needs",
    ),
    _bug(
        "a client signs sets that are too small for a coded mask",
        "protocols/sums/lightsecagg.py",
        "if len(survivors) < least:\n            me.refuse",
        "if len(survivors) < self.settings.min_clients:\n            me.refuse",
        f"{_LIGHTSECAGG}::test_clients_sign_no_set_of_fewer_survivors_than_a_sum_needs",
    ),
    _bug(
        "signatures of clients that are back are not accepted",
        "protocols/sums/lightsecagg.py",
        'f"{name}#{me.incarnations[name]}"',
        'f"{name}#1"',
        f"{_LIGHTSECAGG}::test_clients_that_are_back_sign_under_their_new_incarnations",
    ),
    _bug(
        "members of a committee that could add are left out",
        "protocols/sums/committee.py",
        "len(common) > len(best[1])",
        "len(common) >= len(best[1])",
        "tests/protocols/test_committee.py::test_no_member_is_left_out_that_holds_the_shares_of_all_in_the_sum",
    ),
    _bug(
        "the 95th percentile is one place too high",
        "scenarios/sweeping/survival.py",
        "math.ceil(0.95 * len(found)) - 1",
        "min(math.ceil(0.95 * len(found)), len(found) - 1)",
        "tests/scenarios/test_survival_figures.py",
    ),
    _bug(
        "any pause of the waiting party explains a deadline",
        "scenarios/seeing/causes.py",
        "> wait.deadline / 2:",
        "> 0:",
        f"{_CAUSES}::test_a_short_pause_of_the_waiting_party_does_not_explain_that_a_client_is_silent",
    ),
    _bug(
        "a hold explains a message that was lost before it began",
        "scenarios/seeing/causes.py",
        "lost[0][0] if lost and not one.again else end)",
        "end)",
        f"{_CAUSES}::test_a_hold_that_begins_after_a_message_was_lost_did_not_hold_it_back",
    ),
    _bug(
        "an audit allows thirty times the rounding of float32",
        "protocols/auditing/sums.py",
        "rounding = (len(shares) + 8)",
        "rounding = 30 * (len(shares) + 8)",
        "tests/protocols/test_judging.py::test_an_error_of_a_few_roundings_of_float32_is_allowed_and_no_more",
    ),
    _bug(
        "a share of the clients is rounded as a number of floating point",
        "sim/shares.py",
        "return Fraction(str(float(share))) * whole",
        "return Fraction(share * whole)",
        "tests/chaos/test_absent_clients.py::test_shares_are_rounded_exactly",
    ),
)
