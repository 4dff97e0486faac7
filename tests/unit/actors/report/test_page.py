"""The page: whole, escaped, and without anything from elsewhere."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from actors.report.page import MOST_TOPICS, count_text, page, worst_topics
from engine.jobs.history import History
from engine.jobs.lag_summary import Summary, summarize
from tests.unit.engine.jobs.windows_tables import BASE_MS, HOUR_MS, add, copier_row, row


@pytest.fixture
def summary(tmp_path: Path) -> Summary:
    history = History(f"file:{tmp_path}")
    lanes = [row(minute, lag=minute, lag_ms_max=1000 * minute, topic="<o&rders>") for minute in range(40)]
    others = [row(5, topic=f"topic-{number}", lag=1, lag_ms_max=1) for number in range(12)]
    copiers = [copier_row(m, appends={3: 5}, append_failures=2, dropped=7, bytes_per_s=5e6) for m in range(40)]
    stalls = [row(50, lag=3, stalled_ms=9000, stall_reason="waits for a fetch from <source>", lag_ms_max=1)]
    add(history, "g-0", [*lanes, *others, *copiers, *stalls])
    return summarize([history], BASE_MS, BASE_MS + HOUR_MS, rpo_s={"A->B": 20.0})


def body(text: str) -> ET.Element:
    """Parse the page, which is XML too."""
    return ET.fromstring(text.removeprefix("<!DOCTYPE html>\n"))


def test_it_is_whole_and_needs_nothing_from_elsewhere(summary: Summary) -> None:
    text = page(summary, {"A->B": 20.0}, BASE_MS)
    root = body(text)
    assert len(list(root.iter("svg"))) == 8
    assert list(root.iter("script")) == []
    assert re.findall(r"(?:src|href)=\"(?!data:)", text) == []
    assert "http" not in text
    assert "url(" not in text


def test_it_tells_breaches_stalls_failures_and_holes(summary: Summary) -> None:
    text = page(summary, {"A->B": 20.0}, BASE_MS)
    said = " ".join(body(text).itertext())
    assert "<o&rders>" in said
    assert "waits for a fetch from <source>" in said
    assert "80 appends were answered with a failure" in said
    assert "7 samples of partitions were never written" in said
    assert "39.0 s 20.0 s" in re.sub(r"\s+", " ", " ".join(one.text or "" for one in body(text).iter("td")))
    assert 'class="span"' in text
    assert 'class="mark"' in text


def test_without_an_objective_none_is_drawn(summary: Summary) -> None:
    assert 'class="mark"' not in page(summary, {}, BASE_MS)


def test_an_empty_history_says_so() -> None:
    text = page(summarize([], BASE_MS, BASE_MS + HOUR_MS), {}, BASE_MS)
    assert "holds nothing of this time" in " ".join(body(text).itertext())


def test_the_worst_topics_are_drawn(summary: Summary) -> None:
    found = list(worst_topics(summary.topics))
    assert len(found) == MOST_TOPICS
    assert found[0] == "<o&rders>"


@pytest.mark.parametrize(("value", "text"), [(0, "0"), (999, "999"), (1500, "1.5 k"), (2e6, "2 M"), (3e9, "3 G")])
def test_numbers_are_short(value: float, text: str) -> None:
    assert count_text(value) == text
