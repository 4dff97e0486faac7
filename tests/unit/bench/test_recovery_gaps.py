"""Pauses computed from the samples of a watch."""

from bench.recovery.gaps import Feed, Wait, growth, longest_pause, longest_wait, usual_pause
from bench.recovery.watching import Watched, judge_healthy


def steady(*, first: float = 0.0, last: float = 20.0, without: tuple[float, float] | None = None) -> Feed:
    """Ten records a second at the source, copied at once, except for a time in which nothing arrives."""
    source = tuple((first + step / 10, step + 1) for step in range(int((last - first) * 10) + 1))
    if without is None:
        return Feed(source=source, target=source)
    begin, end = without
    return Feed(source=source, target=tuple(one for one in source if not begin < one[0] < end))


def test_progress_is_more_than_ever_before() -> None:
    assert growth([(2.0, 5), (1.0, 3), (3.0, 5), (4.0, 4), (5.0, 6)]) == ((1.0, 3), (2.0, 5), (5.0, 6))
    assert growth([(1.0, 0)]) == ()


def test_control_records_are_no_progress() -> None:
    """Offset 0 and 3 hold markers: an end of 1 is no record, and an end of 4 as many as an end of 3."""
    assert growth([(1.0, 1), (2.0, 3), (3.0, 4), (4.0, 5)], [1, 2, 4]) == ((2.0, 2), (4.0, 3))


def test_the_longest_gap_of_any_partition_around_the_fault_counts() -> None:
    feeds = [steady(without=(2.0, 7.0)), steady(without=(11.0, 13.0)), steady()]
    assert round(longest_pause(feeds, 10.0, 20.0), 6) == 2.0
    assert round(longest_pause(feeds, 5.0, 20.0), 6) == 5.0, "a gap that touches the time counts whole"
    assert round(longest_pause(feeds, 14.0, 20.0), 6) == 0.1
    assert round(longest_pause(feeds, 0.0, 1.0), 6) == 0.1


def test_what_is_usual_ends_before_the_fault() -> None:
    feeds = [steady(without=(9.5, 17.0)), steady(without=(4.0, 4.5))]
    assert round(usual_pause(feeds, 1.0, 10.0), 6) == 0.5
    assert usual_pause(feeds, 10.0, 10.0) == 0.0


def test_a_new_partition_waits_from_its_first_record() -> None:
    feed = steady(first=10.0, without=(9.0, 14.0))
    assert round(longest_pause([feed], 5.0, 20.0), 6) == 4.0


def test_what_never_arrives_is_a_gap_to_the_end() -> None:
    feed = Feed(source=((1.0, 1), (2.0, 2)), target=((1.0, 1),))
    assert longest_pause([feed], 0.0, 30.0) == 29.0
    assert longest_wait([feed], 0.0, 30.0) == Wait(28.0, 2.0)
    assert longest_pause([Feed(source=((1.0, 1),), target=())], 0.0, 30.0) == 29.0
    assert longest_wait([Feed(source=((1.0, 1),), target=())], 0.0, 30.0) == Wait(29.0, 1.0)
    assert longest_pause([Feed(source=(), target=())], 0.0, 30.0) == 0
    assert longest_wait([Feed(source=(), target=())], 0.0, 30.0).length == 0


def test_a_wait_begins_with_the_end_of_the_cause() -> None:
    feed = steady(without=(5.0, 12.0))
    assert round(longest_wait([feed], 10.0, 20.0).length, 6) == 2.0
    assert round(longest_wait([feed], 12.0, 20.0).length, 6) == 0.0


def test_a_source_that_has_nothing_new_makes_nobody_wait() -> None:
    quiet = Feed(source=((1.0, 1), (9.0, 2)), target=((1.0, 1), (9.5, 2)))
    assert longest_pause([quiet], 2.0, 20.0) == 8.5
    assert longest_wait([quiet], 2.0, 20.0) == Wait(0.5, 9.0)


def test_a_second_stop_after_the_cause_is_seen() -> None:
    feed = steady(without=(14.0, 18.0))
    assert round(longest_wait([feed], 10.0, 20.0).length, 1) == 3.9


def test_a_wait_ends_with_the_time_that_is_looked_at() -> None:
    feed = steady(without=(5.0, 12.0))
    assert round(longest_wait([feed], 4.0, 8.0).length, 6) == 2.9
    assert round(longest_wait([feed], 0.0, 4.5).length, 6) == 0.0


def test_lanes_that_were_hit_are_measured_and_not_judged() -> None:
    feeds = {0: steady(without=(5.0, 12.0)), 1: steady(without=(6.0, 7.5)), 2: steady()}
    answers = {"restarted": [4.0], "slow": [6.0, 7.25], "quick": [6.0 + 0.05 * step for step in range(40) if step != 9]}
    control = [[0.0, 5.0, 7.0, 9.0], [6.5, 7.75], [0.0, 6.0], [8.0, 20.0]]
    seen = Watched(feeds=feeds, answers=answers, control=control)
    healthy = judge_healthy(seen, {0: ("position",), 1: (), 2: ()}, 4.0, 20.0)
    assert healthy is not None
    assert (healthy.lanes, healthy.most_s, healthy.broker_s, healthy.control_s) == (2, 1.4, 0.1, 2.0)
    assert [(one.partition, one.hit, one.wait_s, one.begin_s) for one in healthy.waits] == [
        (0, ("position",), 6.9, 1.1),
        (1, (), 1.4, 2.1),
        (2, (), 0.0, 0.0),
    ]
    assert "partition 1 waited longest, 1.40 s, from 2.1 s after the fault" in str(healthy)
    assert str(healthy).endswith("; a plain producer's records waited 2.00 s")


def test_a_fault_that_hits_all_lanes_leaves_none_to_judge_by() -> None:
    healthy = judge_healthy(Watched(feeds={0: steady()}), {0: ("records",)}, 0.0, 20.0)
    assert healthy is not None
    assert (healthy.lanes, healthy.control_s, str(healthy)) == (0, -1.0, "NO HEALTHY LANE")
    assert judge_healthy(Watched(feeds={0: steady()}), None, 0.0, 20.0) is None
