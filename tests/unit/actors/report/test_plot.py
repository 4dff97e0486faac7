"""Plots: well-formed, within their frame, with gaps where nothing is known."""

import math
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.report.plot import HEIGHT, WIDTH, Frame, Line, Span, nice_top, plot

FRAME = Frame(since_ms=0, until_ms=600_000, step_ms=60_000)


def drawn(*lines: Line, **more: object) -> ET.Element:
    return ET.fromstring(plot("a <title> & more", FRAME, lines, lambda value: f"{value:g} <s>", **more))  # type: ignore[arg-type]


def polylines(figure: ET.Element) -> list[list[tuple[float, float]]]:
    found = []
    for one in figure.iter("polyline"):
        found.append([(float(x), float(y)) for x, y in (place.split(",") for place in one.attrib["points"].split())])
    return found


@given(st.lists(st.one_of(st.none(), st.floats(min_value=0, max_value=1e15)), max_size=20))
def test_every_point_lies_within_the_frame(values: list[float | None]) -> None:
    figure = drawn(Line("a & b", [(30_000 * at, value) for at, value in enumerate(values)]))
    for x, y in (place for line in polylines(figure) for place in line):
        assert 0 <= x <= WIDTH
        assert 0 <= y <= HEIGHT


def test_a_line_is_broken_where_nothing_is_known_or_was_told() -> None:
    points = [(0, 1.0), (60_000, 2.0), (120_000, None), (180_000, 2.0), (240_000, 3.0), (480_000, 1.0)]
    figure = drawn(Line("t", points))
    assert [len(line) for line in polylines(figure)] == [2, 2]
    assert len(list(figure.iter("circle"))) == 1


def test_more_is_higher_and_later_is_further_right() -> None:
    ((first, second),) = polylines(drawn(Line("t", [(0, 1.0), (60_000, 5.0)])))
    assert first[0] < second[0]
    assert first[1] > second[1]


def test_a_breach_is_shaded_and_the_objective_ruled() -> None:
    figure = drawn(Line("t", [(0, 1.0)]), shaded=[Span(-5, 60_000), Span(500_000, 900_000)], mark=20.0)
    assert len(list(figure.iter("rect"))) == 2
    assert [one.attrib["class"] for one in figure.iter("line")][-1] == "mark"
    assert "20 <s>" in [one.text for one in figure.iter("text")]


def test_without_a_value_it_says_so() -> None:
    assert "nothing was measured" in [one.text for one in drawn().iter("text")]
    assert "nothing was measured" in [one.text for one in drawn(Line("t", [(0, None)])).iter("text")]


@pytest.mark.parametrize(("hours", "text"), [(1, ":00"), (24, ":00"), (100, "Jan"), (2000, "Jan")])
def test_the_axis_of_time_has_a_handful_of_marks(hours: int, text: str) -> None:
    frame = Frame(since_ms=0, until_ms=hours * 3_600_000, step_ms=60_000)
    figure = ET.fromstring(plot("t", frame, [], str))
    times = [str(one.text) for one in figure.iter("text") if one.attrib["class"] == "time"]
    assert 4 <= len(times) <= 13
    assert any(text in one for one in times)


@given(st.floats(min_value=1e-8, max_value=1e18))
def test_the_end_of_an_axis_is_near_and_not_below(most: float) -> None:
    assert most * 0.99 <= nice_top(most) <= most * 10
    assert math.isclose(nice_top(0), 1.0)
