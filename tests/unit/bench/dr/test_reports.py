"""What commands say decides which group may read again, and which loss is excused: nothing more is believed."""

import base64
import json

import pytest

from bench.dr.kills import OF_SOURCE, Victim
from bench.dr.records import RecordId, value_of
from bench.dr.reports import (
    exported,
    group_rows,
    hurts,
    judge_preview,
    unequal_in_failback,
    unequal_in_failover,
)


def stand(group: str, why: str = "") -> dict[str, object]:
    return {"group": group, "why": why}


def test_a_group_of_a_failover_is_equal_only_if_every_partition_is() -> None:
    standing = {"stands": [stand("a"), stand("a"), stand("b"), stand("b", "behind")], "failed": {"c": "not read"}}
    assert unequal_in_failover({"standing": standing}, ["a", "b", "c", "unnamed"]) == {"b", "c", "unnamed"}
    assert unequal_in_failover({}, ["a"]) == {"a"}


def moved(group: str, reason: str = "exact", why: str = "") -> dict[str, object]:
    return {"group": group, "reason": reason, "why": why}


def test_a_group_of_a_failback_is_equal_only_if_every_partition_is_exact() -> None:
    rows = [moved("a"), moved("b", "repeats"), moved("b"), moved("c", why="it has members")]
    assert unequal_in_failback(rows, ["a", "b", "c", "unnamed"]) == {"b", "c", "unnamed"}


def test_the_groups_of_a_failback_are_known_after_a_kill_at_its_very_end() -> None:
    answer, stored = {"groups": [moved("a")]}, {"rows": {"groups": [moved("b")]}}
    assert group_rows(answer, stored) == [moved("a")]
    assert group_rows({}, stored) == [moved("b")]
    assert group_rows({}, {}) == []


@pytest.mark.parametrize(
    ("victim", "is_explained"),
    [(Victim.TARGET_BROKER, True), (Victim.SOURCE_BROKER, False), (Victim.DRIVER, False), (None, False)],
)
def test_only_a_dead_broker_of_the_target_explains_too_few_replicas(victim: Victim | None, is_explained: bool) -> None:
    found = {"hurts": True, "name": "too-few-in-sync", "subject": "t-0", "why": "one of three"}
    harmless = {**found, "hurts": False}
    notes, faults = hurts({"findings": [found, harmless]}, victim)
    assert (len(notes), len(faults)) == ((1, 0) if is_explained else (0, 1))


@pytest.mark.parametrize("victim", [*Victim, None])
@pytest.mark.parametrize(
    ("why", "is_unknown"),
    [
        ("the end of the source partition is not known: broker 1 ...", True),
        ("its records cannot be compared: broker 1 ...", True),
        ("broker 1 closes it without an answer", True),
        ("3 records are not copied", False),
    ],
)
def test_what_a_dead_broker_of_the_source_does_not_tell_is_no_fault_of_the_drill(
    victim: Victim | None, why: str, is_unknown: bool
) -> None:
    found = {"hurts": True, "name": "not-drained", "subject": "t-0", "why": why}
    notes, faults = hurts({"findings": [found]}, victim)
    assert (len(notes), len(faults)) == ((1, 0) if victim in OF_SOURCE and is_unknown else (0, 1))


def test_no_kill_explains_a_wrong_record() -> None:
    found = {"hurts": True, "name": "wrong-record", "subject": "g", "why": "another one"}
    for victim in (*Victim, None):
        assert hurts({"findings": [found]}, victim) == ([], ["the drill found wrong-record of g: another one"])


@pytest.mark.parametrize(
    ("said", "lost", "in_order", "notes", "faults"),
    [(5, 5, True, 0, 0), (4, 5, True, 0, 1), (4, 5, False, 0, 1), (6, 5, True, 0, 1), (6, 5, False, 1, 0)],
)
def test_a_loss_that_is_not_told_is_always_a_fault(
    said: int, lost: int, in_order: bool, notes: int, faults: int
) -> None:
    found = judge_preview(said, lost, stopped_in_order=in_order)
    assert tuple(map(len, found)) == (notes, faults)


def test_an_export_is_read_by_the_writers_names() -> None:
    lines = [
        json.dumps({"topic": "a.t", "partition": 1}),
        json.dumps({"offset": 5, "value": base64.b64encode(value_of("w", 1, 7)).decode()}),
        json.dumps({"records": 1}),
    ]
    assert list(exported(["\n".join(lines) + "\n"], {"a.t": "t"})) == [RecordId("w", "t", 1, 7)]
