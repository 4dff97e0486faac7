"""The report of a simulated day, from Parquet (also from Spark's windows of samples), in a real browser."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from actors.cli import main
from actors.report.page import page as render
from deploy.local.cluster import EmbeddedCluster
from engine.config.storage import Storage
from engine.core.events.event_base import Event
from engine.core.reports.progress_sample import ProgressSample, encode_sample, lag_topic, progress_topic
from engine.jobs.lag import query as lag
from engine.jobs.lag.history import History
from engine.jobs.lag.options import LagOptions, lag_table_uri
from engine.jobs.lag.summary import summarize
from policies.model import FlowName
from tests.harness.admin import create_topics
from tests.harness.browser import NAMES, Tab, browser, find_browser
from tests.harness.day import DAY_S, EVERY_S, TOPICS, a_day, windows_of
from tests.harness.load import Sent, produce
from tests.unit.engine.jobs.windows_tables import BASE_MS, HOUR_MS, Row, add, row

pytestmark = [
    pytest.mark.integration,
    pytest.mark.full,
    pytest.mark.skipif(find_browser() is None, reason=f"no browser is installed here ({', '.join(NAMES)})"),
    # PySpark leaves the sockets that it reads results from to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

FLOWS = (FlowName("east", "west"), FlowName("west", "archive"))
CONFIG = """clusters = east, west, archive
east.bootstrap.servers = 127.0.0.1:1
west.bootstrap.servers = 127.0.0.1:1
archive.bootstrap.servers = 127.0.0.1:1
east->west.enabled = true
west->archive.enabled = true
raymirror.rpo.seconds = 300
raymirror.storage = file:{storage}
"""
DRAWN = """JSON.stringify([...document.querySelectorAll('svg.plot')].map(plot => {
  const box = plot.getBoundingClientRect();
  const paths = [...plot.querySelectorAll('path')];
  const boxes = paths.map(one => one.getBBox()).map(one => [one.x, one.y, one.width, one.height]);
  const texts = [...plot.querySelectorAll('text')].map(one => [one.getAttribute('class'), one.textContent]);
  const keys = plot.parentElement.querySelectorAll('li').length;
  const tips = [...plot.querySelectorAll('.tips title')].map(one => one.textContent);
  return {width: box.width, height: box.height, boxes, texts, keys, tips};
}))"""
FITS = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
GROUND = "getComputedStyle(document.body).backgroundColor"


def the_last_day() -> list[ProgressSample]:
    """Tell a day that ends now; each sample lies in the middle of a window."""
    window_ms = 1000 * EVERY_S
    return list(a_day((time.time_ns() // 1_000_000 // window_ms - DAY_S // EVERY_S) * window_ms - window_ms // 2))


def history_of(folder: Path) -> History:
    return History(lag_table_uri(Storage.of_folder(folder / "storage")))


def made_by_spark(spark: SparkSession, cluster: EmbeddedCluster, folder: Path, flow: FlowName) -> None:
    """Have the query of lag make the history of all samples on the progress topic."""
    told: list[Event] = []
    target_options = {"kafka.bootstrap.servers": cluster.bootstrap_servers}
    options = LagOptions(flow=flow, window_s=EVERY_S, every_s=1, most_records=2000)
    query, _ = lag.start(spark, options, Storage.of_folder(folder / "storage"), target_options, told.append)
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    assert told == []


def reported(folder: Path) -> Path:
    """Have `raymirror report` write the page."""
    config, out = folder / "mm2.properties", folder / "report.html"
    config.write_text(CONFIG.format(storage=folder / "storage"))
    assert main.main(["report", "--since", "24h", "--config", str(config), "-o", str(out)]) == 0
    return out


async def drawn(tab: Tab) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(await tab.value(DRAWN))
    return found


async def test_a_browser_draws_every_plot_and_asks_for_nothing(tmp_path: Path) -> None:
    found = list(windows_of(the_last_day()))
    for flow in FLOWS:
        add(history_of(tmp_path), f"day-{flow}", [one for one in found if one["flow"] == str(flow)])
    await all_is_drawn(reported(tmp_path), tmp_path)


async def test_a_browser_draws_what_spark_made_of_samples(
    spark: SparkSession, source_cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    samples = the_last_day()
    for flow in FLOWS:
        own = [one for one in samples if one.flow == str(flow)]
        topic = progress_topic(flow.source)
        await create_topics(source_cluster, {topic: 1, lag_topic(flow.source): 1})
        await produce(source_cluster, topic, 0, [Sent(None, encode_sample(one), timestamp_ms=one.at_ms) for one in own])
        await asyncio.to_thread(made_by_spark, spark, source_cluster, tmp_path, flow)
        wanted = {key_of(one): one for one in windows_of(own)}
        tables = history_of(tmp_path).windows(0, 2**45, flow=str(flow))
        found = {key_of(row): row for table in tables for row in table.to_pylist()}
        assert found.keys() == wanted.keys()
        for key, window in wanted.items():
            assert {name: found[key][name] for name in window} == window
    await all_is_drawn(reported(tmp_path), tmp_path)


def key_of(window: Row) -> tuple[str, int, str, int]:
    return window["topic"], window["partition"], window["copier_key"], window["window_start_ms"]


async def all_is_drawn(page: Path, folder: Path) -> None:
    """Open the page on a wide and a small screen, by day and by night."""
    command = find_browser()
    assert command is not None
    async with browser(command, folder / "profile") as tab:
        for width, dark in ((1280, False), (1280, True), (375, False)):
            await tab.open(page, width=width, dark=dark)
            plots = await drawn(tab)
            assert len(plots) == 8 * len(FLOWS)
            for plot in plots:
                check(plot, width)
            assert await tab.value(FITS)
            assert (await tab.value(GROUND) == "rgb(255, 255, 255)") is not dark
            assert tab.complaints == []
            assert tab.requests == [page.as_uri()]
        said = await tab.value("document.body.innerText")
        assert all(topic.name in said for topic in TOPICS)
        assert "waits for a fetch from source broker 2" in said
        await tab.picture(folder / "page.png")
        assert (folder / "page.png").stat().st_size > 20_000


def check(plot: dict[str, Any], width: int) -> None:
    """A plot is as wide as its place, has lines within it, both axes, a legend, and something to tell everywhere."""
    assert 200 < plot["width"] < width
    assert plot["height"] > 100
    assert plot["boxes"]
    for x, y, wide, high in plot["boxes"]:
        assert wide > 0
        assert -1 <= x <= x + wide <= 1001
        assert -1 <= y <= y + high <= 1001
    kinds = [kind for kind, _ in plot["texts"]]
    assert kinds.count("value") >= 2
    assert 4 <= kinds.count("time") <= 9
    assert "none" not in kinds
    assert plot["keys"] >= 1
    assert 80 <= len(plot["tips"]) <= 97
    assert all(
        "NaN" not in text and "None" not in text for text in [*plot["tips"], *(text for _, text in plot["texts"])]
    )


async def test_names_are_text_and_the_least_histories_are_pages(tmp_path: Path) -> None:
    """Nothing in a name runs or makes the page wider than a phone; one window is a dot, none is a sentence."""
    command, page = find_browser(), tmp_path / "page.html"
    assert command is not None
    names = ("<script>console.error('run')</script>", "t" * 249, "a b&c\"'>")
    rows = [row(1, topic=name, lag=3, lag_ms_max=5000, stalled_ms=9000, stall_reason=name) for name in names]
    histories: dict[str, list[Row]] = {"named": rows, "one": [row(1, lag=3, lag_ms_max=5000)], "empty": []}
    async with browser(command, tmp_path / "profile") as tab:
        for kind, found in histories.items():
            history = History(f"file:{tmp_path}/{kind}")
            add(history, "g-0", found)
            page.write_text(render(summarize(history, BASE_MS, BASE_MS + HOUR_MS, rpo_s={"A->B": 1.0}), {}, BASE_MS))
            await tab.open(page, width=375)
            assert (tab.complaints, tab.requests) == ([], [page.as_uri()])
            assert await tab.value("document.scripts.length") == 0
            assert await tab.value(FITS), kind
            said = await tab.value("document.body.textContent")
            assert all(name in said for name in names) is (kind == "named")
            assert ("holds nothing of this time" in said) is (kind == "empty")
            assert (await tab.value("document.querySelectorAll('.dot').length") > 0) is (kind != "empty")
