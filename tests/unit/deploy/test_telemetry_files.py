"""Docs, dashboard, alerts and runbook name exactly the exported metrics, with their labels."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from actors.telemetry.families import FAMILIES, Family, MetricKind
from engine.core.lane.states import State

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "deploy" / "telemetry"
DOCS = (ROOT / "docs" / "metrics.md").read_text()
RUNBOOK = (FOLDER / "runbook.md").read_text()
DASHBOARD = json.loads((FOLDER / "dashboard.json").read_text())
RULES: list[dict[str, Any]] = [
    rule for group in yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"] for rule in group["rules"]
]

BY_NAME = {family.name: family for family in FAMILIES}
SAMPLES = {
    **BY_NAME,
    **{
        family.name + suffix: family
        for family in FAMILIES
        if family.kind is MetricKind.HISTOGRAM
        for suffix in ("_bucket", "_sum", "_count")
    },
}
NAME = re.compile(r"\braymirror_[a-z_]+")
SELECTOR = re.compile(r"\b(raymirror_[a-z_]+)\{([^}]*)\}")
GROUPING = re.compile(r"\b(?:by|on) \(([^)]*)\)")
DOC_ROW = re.compile(r"^\| `(raymirror_[a-z_]+)` \| (\w+) \| ([^|]+) \| ([^|]*)\|", re.MULTILINE)
UNITS = {"By": "bytes", "s": "seconds", "{record}": "records", "{batch}": "batches", "{partition}": "partitions"}


def panels() -> list[dict[str, Any]]:
    return [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def queries() -> Iterator[tuple[str, str]]:
    """Where a query stands, and the query."""
    for panel in panels():
        for target in panel["targets"]:
            yield f"panel {panel['title']}", target["expr"]
    for rule in RULES:
        yield f"alert {rule['alert']}", rule["expr"]


QUERIES = list(queries())


def labels_of(family: Family) -> set[str]:
    return {*family.labels, "le"} if family.kind is MetricKind.HISTOGRAM else set(family.labels)


@pytest.mark.parametrize(("where", "query"), QUERIES, ids=[where for where, _ in QUERIES])
def test_a_query_asks_for_what_is_exported(where: str, query: str) -> None:
    names = NAME.findall(query)
    assert names
    assert [name for name in names if name not in SAMPLES] == []
    for name, selector in SELECTOR.findall(query):
        asked = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", selector))
        assert asked <= labels_of(SAMPLES[name]), f"{where}: {name}"
    known = set().union(*(labels_of(SAMPLES[name]) for name in names))
    for grouping in GROUPING.findall(query):
        assert {label.strip() for label in grouping.split(",")} <= known, where
    assert [query.count(opened) for opened in "([{"] == [query.count(closed) for closed in ")]}"], where


@pytest.mark.parametrize(("where", "query"), QUERIES, ids=[where for where, _ in QUERIES])
def test_counters_are_rated_and_gauges_are_not(where: str, query: str) -> None:
    for name in set(NAME.findall(query)):
        kind = SAMPLES[name].kind
        rated = re.search(rf"(?:rate|increase)\({name}\b", query) is not None
        assert rated == (kind is not MetricKind.GAUGE), f"{where}: {name}"


def test_the_docs_table_is_the_table() -> None:
    rows = {name: (kind, unit.strip(), labels) for name, kind, unit, labels in DOC_ROW.findall(DOCS)}
    assert rows.keys() == BY_NAME.keys()
    for name, (kind, unit, labels) in rows.items():
        family = BY_NAME[name]
        assert kind == family.kind.value, name
        assert tuple(label.strip() for label in labels.split(",") if label.strip()) == family.labels, name
        assert unit == UNITS.get(family.unit, unit), name


@pytest.mark.parametrize("text", [DOCS, RUNBOOK], ids=["docs", "runbook"])
def test_texts_name_no_metric_that_is_not_there(text: str) -> None:
    assert [name for name in NAME.findall(text) if name not in SAMPLES] == []


def test_every_metric_is_on_the_dashboard() -> None:
    shown = {
        SAMPLES[name] for panel in panels() for target in panel["targets"] for name in NAME.findall(target["expr"])
    }
    assert [family.name for family in FAMILIES if family not in shown] == []


def test_the_docs_name_every_state_of_a_lane() -> None:
    (row,) = (line for line in DOCS.splitlines() if line.startswith("| `raymirror_partitions`"))
    shown = [state.value for state in State if state is not State.WATCHING]  # which is told as copying
    for state in (*shown, "paused", "unowned"):
        assert state in row


def test_every_alert_links_to_its_paragraph_and_every_paragraph_has_an_alert() -> None:
    headings = re.findall(r"^## (\w+)$", RUNBOOK, re.MULTILINE)
    assert headings == [rule["alert"] for rule in RULES]
    for rule in RULES:
        assert rule["annotations"]["runbook_url"] == f"runbook.md#{rule['alert'].lower()}"
        assert rule["annotations"]["summary"]
        assert rule["labels"]["severity"] in ("info", "warning", "critical")


def test_links_within_the_runbook_lead_somewhere() -> None:
    anchors = {heading.lower() for heading in re.findall(r"^#+ (\w+)$", RUNBOOK, re.MULTILINE)}
    assert set(re.findall(r"\]\(#([^)]+)\)", RUNBOOK)) <= anchors


def test_alerts_of_states_name_states_that_are() -> None:
    states = {*(state.value for state in State), "unowned", "paused", "starting", "ready", "draining", "gone"}
    for _, query in QUERIES:
        for named in re.findall(r'state=~?"([^"]+)"', query):
            assert set(named.split("|")) <= states


def test_panels_have_ids_of_their_own_and_do_not_overlap() -> None:
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
