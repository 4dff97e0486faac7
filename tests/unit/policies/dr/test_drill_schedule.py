"""When a mirror drills by itself."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.dr.drill_schedule import NEVER, parse_schedule

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
TEXTS = ("7d", "12h", "03:00", "Mon 03:00", "sun 23:59", "1h")


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("text", "every_s"), [("7d", 604_800), ("12h", 43_200), ("03:00", 86_400), ("Mon 3:00", 604_800), (" OFF ", 0)]
)
def test_a_schedule_is_an_interval_or_a_time(text: str, every_s: int) -> None:
    assert parse_schedule(text).every_s == every_s


@pytest.mark.parametrize("text", ["", "0d", "7", "7w", "24:00", "03:60", "Foo 03:00", "03:00 Mon", "-1h", "weekly"])
def test_anything_else_is_refused_with_what_would_be_right(text: str) -> None:
    with pytest.raises(ValueError, match="Mon 03:00 every week"):
        parse_schedule(text)


def test_an_interval_counts_from_the_last_drill_and_first_from_an_hour_after_the_start() -> None:
    schedule = parse_schedule("12h")
    assert schedule.due_ms(-1, 5) == 5 + HOUR_MS
    assert schedule.due_ms(1000, 5) == 1000 + 12 * HOUR_MS


@pytest.mark.parametrize(
    ("text", "last", "due"),
    [
        ("03:00", "2026-03-02T02:59", "2026-03-02T03:00"),
        ("03:00", "2026-03-02T03:00", "2026-03-03T03:00"),
        ("Mon 03:00", "2026-03-02T02:59", "2026-03-02T03:00"),
        ("Mon 03:00", "2026-03-02T03:01", "2026-03-09T03:00"),
        ("Sun 00:00", "2026-02-27T12:00", "2026-03-01T00:00"),
    ],
)
def test_a_time_is_the_next_one_behind_the_last_drill(text: str, last: str, due: str) -> None:
    assert parse_schedule(text).due_ms(at(last), 0) == at(due)
    assert parse_schedule(text).due_ms(-1, at(last)) == at(due)


@given(st.sampled_from(TEXTS), st.integers(0, 4_000_000_000_000))
def test_a_drill_is_always_due_again_within_its_interval(text: str, last_ms: int) -> None:
    schedule = parse_schedule(text)
    due_ms = schedule.due_ms(last_ms, 0)
    assert last_ms < due_ms <= last_ms + schedule.every_s * 1000
    assert schedule.due_ms(due_ms, 0) == due_ms + schedule.every_s * 1000


def test_no_schedule_is_never_due() -> None:
    assert not NEVER.is_on
    assert parse_schedule("off").due_ms(1, 1) == -1
