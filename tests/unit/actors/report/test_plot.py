"""Plots: well-formed, within their frame, with gaps for unknown values."""

import itertools
import math
import xml.etree.ElementTree as ET
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.report.frame import Frame, Line, Span
from actors.report.plot import SIZE, Plot, draw
from actors.report.tips import MOST_TIPS
from actors.report.units import Unit

FRAME = Frame(since_ms=0, until_ms=600_000, step_ms=60_000)
UNIT = Unit(lambda value: f"{value:g} <s>", lambda least: 10.0 ** math.ceil(math.log10(least)))
Place = tuple[float, float]


def drawn(*lines: Line, frame: Frame = FRAME, **more: Any) -> ET.Element:
    return ET.fromstring(draw(Plot(title="a <title> & more", lines=lines, unit=UNIT, **more), frame))


def paths(figure: ET.Element, kind: str = "c0") -> list[list[Place]]:
    found = []
    for one in figure.iter("path"):
        if one.attrib["class"] == kind:
            places = one.attrib["d"].removeprefix("M").removesuffix("h0").split("L")
            found.append([(float(x), float(y)) for x, y in (place.split() for place in places)])
    return found


def texts(figure: ET.Element, kind: str) -> list[str]:
    return [one.text or "" for one in figure.iter("text") if one.attrib["class"] == kind]


@given(st.lists(st.one_of(st.none(), st.floats(min_value=0, max_value=1e15)), max_size=20))
def test_every_point_lies_within_the_frame(values: list[float | None]) -> None:
    figure = drawn(Line("a & b", [(30_000 * at, value) for at, value in enumerate(values)]))
    for x, y in (place for kind in ("c0", "c0 dot") for line in paths(figure, kind) for place in line):
        assert 0 <= x <= SIZE
        assert 0 <= y <= SIZE


def test_a_line_is_broken_where_nothing_is_known_or_was_told() -> None:
    points = [(0, 1.0), (60_000, 2.0), (120_000, None), (180_000, 2.0), (240_000, 3.0), (480_000, 1.0)]
    figure = drawn(Line("t", points))
    assert [len(line) for line in paths(figure)] == [2, 2]
    assert [len(line) for line in paths(figure, "c0 dot")] == [1]


def test_more_is_higher_and_later_is_further_right() -> None:
    ((first, second),) = paths(drawn(Line("t", [(0, 1.0), (60_000, 5.0)])))
    assert first[0] < second[0]
    assert first[1] > second[1]


def test_a_breach_is_shaded_and_the_objective_ruled() -> None:
    figure = drawn(Line("t", [(0, 11.0)]), shaded=[Span(-5, 60_000), Span(500_000, 900_000)], mark=20.0)
    assert len([one for one in figure.iter("rect") if one.attrib.get("class") == "span"]) == 2
    assert [one.attrib["class"] for one in figure.iter("line")][-1] == "mark"
    assert texts(figure, "marked") == ["objective: 20 <s>"]


def test_an_objective_far_above_is_told_and_does_not_press_the_lines_flat() -> None:
    figure = drawn(Line("t", [(0, 1.0), (60_000, 1.0)]), mark=20.0)
    assert texts(figure, "marked") == []
    assert "the objective, 20 <s>, is far above" in "".join(figure.itertext())
    assert texts(figure, "value")[-1] == "1 <s>"


@given(st.lists(st.tuples(st.integers(-100_000, 700_000), st.integers(0, 100_000)), max_size=60))
def test_stretches_that_touch_are_one_and_cover_what_they_did(found: list[tuple[int, int]]) -> None:
    spans = [Span(since, since + length) for since, length in found]
    joined = FRAME.joined(spans)
    assert all(one.until_ms < next_.since_ms for one, next_ in itertools.pairwise(joined))
    for span in spans:
        if span.until_ms >= 0 and span.since_ms <= 600_000:
            assert any(one.since_ms <= max(0, span.since_ms) <= one.until_ms for one in joined)


def test_without_a_value_it_says_so() -> None:
    assert texts(drawn(), "none") == ["nothing was measured"]
    assert texts(drawn(Line("t", [(0, None)])), "none") == ["nothing was measured"]
    assert texts(drawn(Line("t", [(0, 0.0)])), "none") == []


def test_pointing_at_a_plot_tells_the_values_there() -> None:
    frame = Frame(since_ms=0, until_ms=1000 * 60_000, step_ms=60_000)
    up = Line("up", [(60_000 * at, float(at)) for at in range(1000)])
    gone = Line("<gone>", [(0, None), (60_000, 7.0)])
    tips = [one for one in drawn(up, gone, frame=frame).iter("rect") if one.find("title") is not None]
    assert MOST_TIPS / 2 < len(tips) <= MOST_TIPS
    said = [str(one.findtext("title")).splitlines() for one in tips]
    assert said[0] == ["1 Jan 00:00 to 1 Jan 00:11 UTC, at most:", "up: 10 <s>", "<gone>: 7 <s>"]
    assert said[1][1:] == ["up: 21 <s>"]


def test_a_long_name_is_cut_in_its_middle_and_told_whole() -> None:
    name = "a" * 120 + "-1"
    figure = drawn(Line(name, [(0, 1.0)]))
    (legend,) = (one for one in figure.iter("span"))
    assert legend.attrib["title"] == name
    assert str(legend.text).endswith("a-1")
    assert len(str(legend.text)) < 50


@pytest.mark.parametrize(("hours", "text"), [(1, ":00"), (24, ":00"), (100, "Jan"), (2000, "Jan"), (20_000, " ")])
def test_the_axis_of_time_has_a_handful_of_marks(hours: int, text: str) -> None:
    frame = Frame(since_ms=0, until_ms=hours * 3_600_000, step_ms=60_000)
    times = texts(drawn(frame=frame), "time")
    assert 4 <= len(times) <= 13
    assert any(text in one for one in times)


def test_the_axis_of_time_begins_within_the_frame() -> None:
    frame = Frame(since_ms=3_600_001, until_ms=3_600_001 + 86_400_000, step_ms=300_000)
    assert texts(drawn(frame=frame), "time") == ["04:00", "08:00", "12:00", "16:00", "20:00", "2 Jan"]
