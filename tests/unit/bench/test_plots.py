"""Images of results: well-formed, every bar within its place, one chart per figure."""

import argparse
import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.errors import BenchError
from bench.plots import command
from bench.plots.charts import Bar, Chart, charts, subtitle
from bench.plots.svg import WIDTH, draw

MACHINE = {"cpus": 2, "cpu": "A <fast> one", "kafka": "4.3.1"}
RUNS = [{"wall_s": 3.0, "records_per_cpu_s": 90.0}, {"wall_s": 1.0, "records_per_cpu_s": 110.0}]
OURS = {"wall_s": 2.0, "records_per_cpu_s": 100.0, "records_per_target_batch": 700.0, "runs": RUNS}
THEIRS = {"wall_s": 4.0, "records_per_cpu_s": 50.0, "records_per_target_batch": 70.0, "runs": []}
TINY: dict[str, Any] = {
    "bench": "tiny",
    "payloads": {"single": {"systems": {"mm2": THEIRS, "raymirror": OURS}}, "4k": {"systems": {"raymirror": OURS}}},
    "repeats": 2,
    "quick": False,
    "machine": MACHINE,
}
QUANTILES = {"p50_ms": 1.0, "p99_ms": 2.0, "p99.9_ms": 5.0, "runs": [{"p50_ms": 0.5, "why": "text"}]}
LATENCY = {
    "bench": "latency",
    "rates": {"2000": {"broker": QUANTILES}},
    "quick": True,
    "repeats": 1,
    "machine": MACHINE,
}
NS = "{http://www.w3.org/2000/svg}"
POSITIVE = st.floats(min_value=0, max_value=1e12)


def test_the_charts_of_a_bench_have_its_groups_and_systems_with_the_spread_of_their_runs() -> None:
    records, wall, batches = charts(TINY)
    assert list(records.groups) == ["single", "4k"]
    assert records.groups["single"] == {"mm2": Bar(50.0, 50.0, 50.0), "raymirror": Bar(100.0, 90.0, 110.0)}
    assert wall.groups["4k"] == {"raymirror": Bar(2.0, 1.0, 3.0)}
    assert batches.groups["single"]["raymirror"] == Bar(700.0, 700.0, 700.0)


def test_rates_are_groups_too() -> None:
    half, most, nearly_all = charts(LATENCY)
    assert half.groups == {"2000 records a second": {"broker": Bar(1.0, 0.5, 0.5)}}
    assert [chart.title.split()[0] for chart in (half, most, nearly_all)] == ["Half", "99", "99.9"]


@pytest.mark.parametrize("found", [{"bench": "house"}, {}, {"bench": "drain", "payloads": {}}])
def test_a_result_that_cannot_be_drawn_is_an_error(found: dict[str, Any]) -> None:
    with pytest.raises(BenchError):
        charts(found)


def test_a_reader_sees_rounds_machine_and_that_quick_figures_mean_nothing() -> None:
    assert "medians of 2 rounds" in subtitle(TINY)
    assert "2 x A <fast> one" in subtitle(TINY)
    assert "quick: the figures mean nothing" in subtitle(LATENCY)
    assert "by TLS" in subtitle({**TINY, "tls": True})


@given(st.lists(st.lists(POSITIVE, min_size=3, max_size=3), min_size=1, max_size=12))
def test_every_bar_lies_within_the_image(values: list[list[float]]) -> None:
    bars = {}
    for at, three in enumerate(values):
        least, value, most = sorted(three)
        bars[f"system <{at}>"] = Bar(value, least, most)
    image = ET.fromstring(draw("a & b", "c", [Chart("one", {"g": bars}), Chart("two", {"h": bars})]))
    height = float(image.attrib["height"])
    background, *rects = image.findall(f"{NS}rect")
    assert float(background.attrib["height"]) == height
    assert len(rects) == 2 * len(values)
    for rect in rects:
        x, y, width, high = (float(rect.attrib[name]) for name in ("x", "y", "width", "height"))
        assert 0 <= x <= x + width <= WIDTH
        assert 0 <= y <= y + high <= height


def test_raymirror_has_the_same_colour_wherever_it_stands() -> None:
    one = {"mm2": Bar(1.0, 1.0, 1.0), "raymirror": Bar(2.0, 2.0, 2.0)}
    other = {"raymirror": Bar(2.0, 2.0, 2.0)}
    first, second = (ET.fromstring(draw("t", "s", [Chart("c", {"g": bars})])) for bars in (one, other))
    assert first.findall(f"{NS}rect")[2].attrib["fill"] == second.findall(f"{NS}rect")[1].attrib["fill"]


def test_an_image_is_written_beside_its_result(tmp_path: Path) -> None:
    file = tmp_path / "tiny-today.json"
    file.write_text(json.dumps(TINY))
    found = command.run(argparse.Namespace(files=[file], folder=None))
    assert found["images"] == [str(tmp_path / "tiny-today.svg")]
    words = {text.text for text in ET.parse(tmp_path / "tiny-today.svg").iter(f"{NS}text")}
    assert {"bench tiny: tiny-today", "single", "raymirror", "100"} <= words


def test_a_file_that_is_no_result_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "broken.json"
    file.write_text("{")
    with pytest.raises(BenchError, match=r"broken\.json cannot be read"):
        command.run(argparse.Namespace(files=[file], folder=None))
