"""The lag at the moment when a flow is cut."""

import msgspec

from engine.core.reports.progress import LaneProgress
from engine.core.reports.rpo import TopicRpo, rpo_of
from policies.model import TopicPartition
from tests.unit.actors.fakes import lane_progress, lanes

A0, A1 = lanes("a", 2)
(B0,) = lanes("b", 1)


def at(name: int, source_next: int, seen: int, since_ms: int = -1) -> LaneProgress:
    found = lane_progress((A0, A1, B0)[name], source_next=source_next, source_end=seen)
    return msgspec.structs.replace(found, behind_since_ms=since_ms)


def ends(*of: int) -> dict[TopicPartition, int]:
    return {lane.source: end for lane, end in zip((A0, A1, B0), of, strict=False)}


def test_topics_are_summed_and_the_oldest_record_counts() -> None:
    found = rpo_of([at(0, 5, 9, 70_000), at(1, 8, 8, -1), at(2, 4, 4)], ends(10, 8, 4), 90_000)
    assert found == (
        TopicRpo(topic="a", partitions=2, records=5, seconds=20.0, known=True),
        TopicRpo(topic="b", partitions=1, records=0, seconds=0.0, known=True),
    )


def test_without_an_answer_it_is_what_was_last_seen() -> None:
    (found,) = rpo_of([at(0, 5, 9, 80_000)], {}, 90_000)
    assert found == TopicRpo(topic="a", partitions=1, records=4, seconds=10.0, known=False)


def test_a_source_that_has_been_silent_for_long_leaves_what_was_last_seen() -> None:
    silent = msgspec.structs.replace(at(0, 5, 9, 80_000), source_end_age_ms=60_000)
    assert not silent.lag_known
    (found,) = rpo_of([silent], {}, 90_000)
    assert found == TopicRpo(topic="a", partitions=1, records=4, seconds=10.0, known=False)


def test_a_lane_that_nobody_copies_is_no_second_behind_an_end_that_it_has_reached() -> None:
    (found,) = rpo_of([at(0, 10, -1), at(1, 8, -1)], ends(10, 8), 90_000)
    assert found == TopicRpo(topic="a", partitions=2, records=0, seconds=0.0, known=True)
    (found,) = rpo_of([at(0, 10, -1), at(1, 7, -1)], ends(10, 8), 90_000)
    assert (found.records, found.seconds) == (1, -1.0)


def test_what_was_never_seen_is_unknown() -> None:
    (found,) = rpo_of([at(0, -1, -1), at(1, 5, 5)], {}, 90_000)
    assert (found.records, found.seconds, found.known) == (-1, -1.0, False)


def test_a_lane_that_nobody_has_is_unknown_even_where_the_source_answers() -> None:
    (found,) = rpo_of([at(0, -1, -1)], ends(10), 90_000)
    assert (found.records, found.seconds, found.known) == (-1, -1.0, True)
