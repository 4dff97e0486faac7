"""Simulated flows whose copiers end: because of one guilty set, of several, or of kills from outside."""

import math
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from policies.placement.flapping import QUARANTINE_ENDS, QUARANTINE_ROW, RETRY_S, UNWITNESSED_ROW
from tests.unit.policies.ward_round import Flow


def quarantined(flow: Flow) -> list[str]:
    return sorted(set_id for set_id, record in flow.records.items() if record.reason)


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 120), st.integers(1, 12), st.integers(2, 4), st.integers(1, 50), st.data())
def test_one_guilty_set_among_many_is_found_alone_and_the_others_run(
    sets: int, copiers: int, spare: int, fuse_s: int, data: st.DataObject
) -> None:
    guilty = f"s{data.draw(st.integers(0, sets - 1)):03d}"
    flow = Flow(sets, copiers, spare, {guilty: fuse_s})
    flow.run(1200)
    search = math.ceil(math.log2(sets)) + 2
    until_quarantine = max(QUARANTINE_ENDS, search + QUARANTINE_ROW - 1)
    if sets == 1:  # there is no other copier to compare with, or it goes round them, and none has lived through a row
        until_quarantine = UNWITNESSED_ROW + 1
    assert quarantined(flow) == [guilty] == list(flow.records)
    # Only who was with it at its second end fell with it later, and from the end of the search on nobody did.
    for held in flow.ends[2:]:
        assert set(held) <= set(flow.ends[1])
    assert all(held == [guilty] for held in flow.ends[search:])
    retries = 1 + (1200 - fuse_s * until_quarantine) // RETRY_S
    assert len(flow.ends) <= until_quarantine + retries
    innocent = [set_id for set_id in flow.sets if set_id != guilty]
    assert all(set_id in flow.owners for set_id in innocent)
    assert max((flow.idle[set_id] for set_id in innocent), default=0) <= 4 * search


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 60), st.integers(1, 4), st.integers(0, 1), st.integers(1, 20), st.data())
def test_it_is_found_without_spare_copiers_too(
    sets: int, copiers: int, spare: int, fuse_s: int, data: st.DataObject
) -> None:
    guilty = f"s{data.draw(st.integers(0, sets - 1)):03d}"
    flow = Flow(sets, copiers, spare, {guilty: fuse_s})
    flow.run(1500)
    assert quarantined(flow) == [guilty] == list(flow.records)
    assert all(set_id in flow.owners for set_id in flow.sets if set_id != guilty)


@settings(deadline=None, max_examples=30)
@given(st.integers(4, 60), st.integers(1, 6), st.integers(1, 20), st.data())
def test_several_guilty_sets_are_all_found(sets: int, copiers: int, fuse_s: int, data: st.DataObject) -> None:
    numbers = data.draw(st.sets(st.integers(0, sets - 1), min_size=2, max_size=3))
    guilty = {f"s{number:03d}": fuse_s for number in numbers}
    flow = Flow(sets, copiers, 6, guilty)
    flow.run(2000)
    assert quarantined(flow) == sorted(guilty)
    assert all(set_id in flow.owners for set_id in flow.sets if set_id not in guilty)


def test_a_set_that_was_mended_runs_again_at_its_next_try() -> None:
    flow = Flow(9, 2, 2, {"s004": 1})
    flow.run(100)
    assert quarantined(flow) == ["s004"]
    assert "s004" not in flow.owners
    flow.mend("s004")
    flow.run(700)
    assert flow.records == {}
    assert "s004" in flow.owners


def test_an_end_every_two_minutes_suspects_nobody() -> None:
    flow = Flow(9, 2, 2, {"s004": 110})
    flow.run(1500)
    assert len(flow.ends) == 13
    assert {record.ends for record in flow.records.values()} <= {1}
    assert max(flow.idle.values()) == 0


CAUSES = (
    "its process ended",
    "it reports, but its data loop has made no progress for {} s",
    "its lease ran out {} s ago",
)


def test_quick_kills_of_any_copiers_for_different_causes_quarantine_no_innocent_set() -> None:
    """Kills at random, always the same ones: who strikes the one copier of the last suspect, three times in a row for
    one cause, could not be told from a guilty set, and a search for such a sequence finds one.
    """
    for seed in range(150):
        chance = random.Random(seed)
        sets = chance.randint(1, 40)
        flow = Flow(sets, chance.randint(1, 5), chance.randint(2, 4), {})
        for kill in range(chance.randint(5, 25)):
            flow.run(chance.randint(1, 50))
            flow.kill(chance.randint(0, 9), CAUSES[kill % len(CAUSES)].format(kill))
            assert quarantined(flow) == [], seed
        flow.run(200)
        assert flow.records == {}, f"and all are cleared ({seed})"
        assert len(flow.owners) == sets


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 40), st.integers(2, 5), st.integers(2, 4), st.integers(1, 50))
def test_a_fault_that_ends_every_copier_again_and_again_quarantines_nobody(
    sets: int, copiers: int, spare: int, every_s: int
) -> None:
    flow = Flow(sets, copiers, spare, {})
    for _ in range(UNWITNESSED_ROW):
        flow.run(every_s)
        for _ in list(flow.lifecycle):
            flow.kill(0, "its process ended")
        assert quarantined(flow) == []


@settings(deadline=None, max_examples=40)
@given(st.integers(2, 40), st.integers(2, 5), st.integers(1, 20), st.data())
def test_a_guilty_set_is_found_although_somebody_kills_copiers_now_and_then(
    sets: int, copiers: int, fuse_s: int, data: st.DataObject
) -> None:
    guilty = f"s{data.draw(st.integers(0, sets - 1)):03d}"
    flow = Flow(sets, copiers, 3, {guilty: fuse_s})
    for number in data.draw(st.lists(st.integers(0, 9), max_size=4)):
        flow.run(90)
        flow.kill(number, "its process ended")
    flow.run(1500)
    assert quarantined(flow) == [guilty]
