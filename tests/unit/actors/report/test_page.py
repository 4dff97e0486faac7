"""The report page: complete, escaped, and without external content."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import msgspec
import pytest

from actors.report.page import MOST_FLOWS, MOST_TOPICS, page, worst_topics
from engine.jobs.lag.history import History
from engine.jobs.lag.rpo_spans import Breach
from engine.jobs.lag.summary import FlowPoint, Latency, Summary, summarize
from engine.jobs.lag.topics import TopicPoint
from tests.unit.engine.jobs.windows_tables import BASE_MS, HOUR_MS, add, copier_row, row


@pytest.fixture
def summary(tmp_path: Path) -> Summary:
    history = History(f"file:{tmp_path}")
    lanes = [row(minute, lag=minute, lag_ms_max=1000 * minute, topic="<o&rders>") for minute in range(40)]
    others = [row(5, topic=f"topic-{number}", lag=1, lag_ms_max=1) for number in range(12)]
    copiers = [copier_row(m, appends={3: 5}, append_failures=2, dropped=7, bytes_per_s=5e6) for m in range(40)]
    stalls = [row(50, lag=3, stalled_ms=9000, stall_reason="waits for a fetch from <source>", lag_ms_max=1)]
    add(history, "g-0", [*lanes, *others, *copiers, *stalls])
    return summarize(history, BASE_MS, BASE_MS + HOUR_MS, rpo_s={"A->B": 20.0})


def body(text: str) -> ET.Element:
    """Parse the page, which is XML too."""
    return ET.fromstring(text.removeprefix("<!DOCTYPE html>\n"))


def test_it_is_whole_and_needs_nothing_from_elsewhere(summary: Summary) -> None:
    text = page(summary, {"A->B": 20.0}, BASE_MS)
    root = body(text)
    assert len([one for one in root.iter("svg") if one.attrib.get("class") == "plot"]) == 8
    assert list(root.iter("script")) == []
    assert re.findall(r"(?:src|href)=\"(?!data:|#)", text) == []
    assert "://" not in text
    assert "url(" not in text


def test_it_tells_breaches_stalls_failures_and_holes(summary: Summary) -> None:
    text = page(summary, {"A->B": 20.0}, BASE_MS)
    said = " ".join(body(text).itertext())
    assert "<o&rders>" in said
    assert "waits for a fetch from <source>" in said
    assert "Failed and tried again: 80 appends." in said
    assert "Never written: 7 samples of partitions" in said
    assert "39.0 s 20.0 s" in re.sub(r"\s+", " ", " ".join(one.text or "" for one in body(text).iter("td")))
    assert 'class="span"' in text
    assert 'class="mark"' in text


def test_without_an_objective_none_is_drawn(summary: Summary) -> None:
    assert 'class="mark"' not in page(summary, {}, BASE_MS)


def test_an_empty_history_says_so() -> None:
    text = page(summarize(None, BASE_MS, BASE_MS + HOUR_MS), {}, BASE_MS)
    assert "holds nothing of this time" in " ".join(body(text).itertext())


def test_the_worst_topics_are_drawn(summary: Summary) -> None:
    found = list(worst_topics(summary.topics))
    assert len(found) == MOST_TOPICS
    assert found[0] == "<o&rders>"


def test_the_objective_that_is_not_known_is_named(summary: Summary) -> None:
    kept = msgspec.structs.replace(summary, breaches=())
    assert "raymirror.rpo.seconds" in page(kept, {}, BASE_MS)
    assert "raymirror.rpo.seconds" not in page(kept, {"A->B": 20.0}, BASE_MS)


def test_the_overview_leads_to_each_flow(summary: Summary) -> None:
    root = body(page(summary, {"A->B": 20.0}, BASE_MS))
    (link,) = root.iter("a")
    (head,) = root.iter("h2")
    assert (link.text, link.attrib["href"]) == ("A->B", f"#{head.attrib['id']}")
    heads, cells = ([cell.text for cell in list(line)] for line in list(root.iter("tr"))[:2])
    said = dict(zip(heads, cells, strict=True))
    assert (said["behind"], said["records"], said["at worst"], said["breaches"]) == ("1 ms", "3", "39 s", "1 (1 still)")
    assert (said["bytes"], said["append p99"]) == ("4.65 MiB/s", "4.97 ms")
    assert said["last point"] == "2027-01-15T08:50:00Z"


def test_a_history_that_begins_late_says_so(tmp_path: Path) -> None:
    history = History(f"file:{tmp_path}")
    add(history, "g-0", [row(50, lag=1, lag_ms_max=5)])
    text = page(summarize(history, BASE_MS, BASE_MS + HOUR_MS), {}, BASE_MS)
    assert "The history of this flow begins at 2027-01-15 08:50" in text
    assert 'class="c0 dot"' in text


def test_its_size_is_bounded_whatever_the_mirrors() -> None:
    step_ms, flows, topics = 300_000, 3 * MOST_FLOWS, MOST_TOPICS + 5
    times = range(BASE_MS, BASE_MS + 24 * HOUR_MS, step_ms)
    found = Summary(
        since_ms=BASE_MS,
        until_ms=BASE_MS + 24 * HOUR_MS,
        step_s=300,
        flows=tuple(
            FlowPoint(
                flow=f"A{flow}->B",
                at_ms=at_ms,
                copiers=1,
                records_per_s=at_ms % 977,
                bytes_per_s=at_ms % 9_770_003,
                copier_skew=1.0,
                append=Latency(p50=1.0, p95=2.0, p99=at_ms % 97),
                copied=Latency(p50=1.0, p95=2.0, p99=at_ms % 97),
                fetched=Latency(),
                append_failures=0,
                dropped=0,
                lag_records=flow,
                lag_seconds=flow,
            )
            for flow in range(flows)
            for at_ms in times
        ),
        topics=tuple(
            TopicPoint(
                flow=f"A{flow}->B",
                topic=f"{'x' * 240}-{topic:04d}",
                at_ms=at_ms,
                partitions=10,
                lag_records=at_ms % 9_999_991,
                lag_bytes=None,
                lag_seconds=at_ms % 9973,
                drain_s=None,
                records_per_s=1.0,
                bytes_per_s=1.0,
                skew=at_ms % 7,
                stalled=0,
            )
            for flow in range(flows - MOST_FLOWS, flows)
            for topic in range(topics)
            for at_ms in times
        ),
        topic_numbers={f"A{flow}->B": 10_000 for flow in range(flows)},
        breaches=tuple(
            Breach(
                flow=f"A{flows - 1}->B",
                topic=f"t{number}",
                since_ms=BASE_MS + 1000 * number,
                until_ms=None if number % 2 else BASE_MS + 1000 * number + 500,
                worst_s=9.0,
                objective_s=5.0,
            )
            for number in range(10_000)
        ),
        stalls=(),
    )
    text = page(found, {f"A{flows - 1}->B": 5.0}, BASE_MS)
    assert len(text) < 6 * 2**20
    assert f"{MOST_TOPICS} topics furthest behind, of 10,000" in text
    assert f"the {MOST_FLOWS} flows that were furthest behind, of {flows}" in text
    assert "9,800 more" in text
    assert [head.text for head in body(text).iter("h2")] == [f"A{n}->B" for n in range(flows - MOST_FLOWS, flows)]
