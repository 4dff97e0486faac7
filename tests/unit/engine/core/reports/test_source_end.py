"""The end of a source partition, and since when it is known."""

import pytest

from engine.core.reports.source_end import END_LASTS_MS, UNREACHED_END_LASTS_MS, SourceEnd, end_known


def test_an_end_that_was_never_heard_is_unknown_and_asked_for() -> None:
    end = SourceEnd()
    assert (end.offset, end.age_ms(1000)) == (-1, -1)
    assert not end_known(end.offset, end.age_ms(1000))
    assert end.is_stale(1000, 5000)
    end.stands(1000)  # a partition that an answer leaves out, and of which nothing was told before
    assert (end.offset, end.at_ms) == (-1, -1)


def test_an_end_is_as_old_as_the_answer_that_told_or_confirmed_it() -> None:
    end = SourceEnd()
    end.reported(7, 1000)
    assert (end.offset, end.age_ms(1400)) == (7, 400)
    end.stands(1300)
    assert (end.offset, end.age_ms(1400)) == (7, 100)
    assert end.age_ms(1200) == 0  # a clock that was set back


def test_an_error_has_it_asked_for_and_makes_it_no_younger() -> None:
    end = SourceEnd()
    end.reported(7, 1000)
    assert not end.is_stale(1400, 500)
    assert end.is_stale(1501, 500)
    end.doubt()
    assert end.is_stale(1001, 500)
    assert (end.offset, end.age_ms(1400)) == (7, 400)
    end.reported(9, 1500)
    assert not end.is_stale(1501, 500)


def test_an_end_whose_broker_cannot_be_reached_is_asked_for_until_somebody_answers() -> None:
    end = SourceEnd()
    end.reported(7, 1000)
    end.lose()
    assert (end.reached, end.is_stale(1001, 500)) == (False, True)
    end.stands(1100)
    assert end.reached
    end.miss()
    assert end.reached, "one question may have met a leader that moved"
    end.reported(7, 1200)
    end.miss()
    assert end.reached
    end.miss()
    assert not end.reached
    end.reported(8, 1300)
    assert (end.reached, end.is_stale(1301, 500), end.offset) == (True, False, 8)


@pytest.mark.parametrize(
    ("offset", "age_ms", "known"),
    [(0, 0, True), (5, END_LASTS_MS, True), (5, END_LASTS_MS + 1, False), (5, -1, False), (-1, 0, False)],
)
def test_an_end_is_known_for_some_refresh_intervals(offset: int, age_ms: int, known: bool) -> None:
    assert end_known(offset, age_ms) is known


def test_without_a_connection_to_its_broker_an_end_is_known_for_a_moment_only() -> None:
    assert end_known(5, UNREACHED_END_LASTS_MS, reached=False)
    assert not end_known(5, UNREACHED_END_LASTS_MS + 1, reached=False)
