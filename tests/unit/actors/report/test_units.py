"""Units: round steps, few of them, and short texts."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from actors.report.units import BYTES, COUNT, MOST_STEPS, SECONDS, Unit, count_text, duration_text, size_text


@pytest.mark.parametrize("unit", [COUNT, BYTES, SECONDS])
@given(most=st.floats(min_value=1e-8, max_value=1e15))
@example(most=1.00000001)
def test_an_axis_has_few_steps_and_ends_near_and_not_below(unit: Unit, most: float) -> None:
    ticks = unit.ticks(most)
    assert 2 <= len(ticks) <= MOST_STEPS + 1
    assert ticks[0] == 0
    assert ticks[-1] >= most * 0.99999
    assert ticks[-1] <= max(most * 3, 1.0)
    assert len({unit.text(tick) for tick in ticks}) == len(ticks) or most < 1e-5


def test_an_axis_of_nothing_is_one_step() -> None:
    assert COUNT.ticks(0) == (0, 1)


@pytest.mark.parametrize(
    ("unit", "most", "said"),
    [
        (SECONDS, 2592, ["0 s", "10 min", "20 min", "30 min", "40 min", "50 min"]),
        (SECONDS, 0.41, ["0 s", "100 ms", "200 ms", "300 ms", "400 ms", "500 ms"]),
        (SECONDS, 400_000, ["0 s", "1 d", "2 d", "3 d", "4 d", "5 d"]),
        (BYTES, 4.3 * 2**20, ["0 B", "1 MiB", "2 MiB", "3 MiB", "4 MiB", "5 MiB"]),
        (COUNT, 13_400, ["0", "5 k", "10 k", "15 k"]),
    ],
)
def test_axes_are_ruled_in_round_values(unit: Unit, most: float, said: list[str]) -> None:
    assert [unit.text(tick) for tick in unit.ticks(most)] == said


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.25, "0.25"),
        (999, "999"),
        (999.9, "1 k"),
        (1500, "1.5 k"),
        (2e6, "2 M"),
        (3e9, "3 G"),
        (4e12, "4 T"),
    ],
)
def test_numbers_are_short(value: float, text: str) -> None:
    assert count_text(value) == text


@pytest.mark.parametrize(("value", "text"), [(0, "0 B"), (1023, "1020 B"), (1024, "1 KiB"), (5.27 * 2**30, "5.27 GiB")])
def test_bytes_are_short(value: float, text: str) -> None:
    assert size_text(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.0123, "12.3 ms"),
        (59.96, "60 s"),
        (60, "1 min"),
        (90, "1 min 30 s"),
        (3600, "1 h"),
        (5430, "1 h 30 min"),
        (90_000, "1 d 1 h"),
    ],
)
def test_durations_are_short(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text
