"""What `raymirror check` prints of a flow."""

import json
from pathlib import Path

import pytest

from actors.cli import check, main
from actors.cli.check import show
from engine.config import load_config
from engine.preflight import FlowPreview, TopicPreview
from policies.model import FlowName

FLOW = FlowName("A", "B")
TOPIC = TopicPreview(source="t", target="A.t", partitions=3, exists=False)


def test_a_flow_without_topics_says_that_it_waits_for_some(capsys: pytest.CaptureFixture[str]) -> None:
    show(FlowPreview(flow=FLOW, topics=(), left_out=3))
    assert capsys.readouterr().out.splitlines() == [
        "A->B: 0 topics, 0 partitions; left out: 3 topics",
        "note: A->B: no topic of 'A' is wanted by `topics` yet; one that comes is copied",
    ]
    show(FlowPreview(flow=FLOW, topics=(TOPIC,), left_out=0))
    assert "note:" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("missing", "says"),
    [((), ""), (("Write",), "grant us Write on"), (("Write", "Describe"), "grant us Write and Describe on")],
)
def test_missing_rights_are_named(missing: tuple[str, ...], says: str) -> None:
    text = FlowPreview(flow=FLOW, topics=(), left_out=0, unfenced=missing).unfenced_text()
    assert says in text
    assert bool(text) == bool(missing)


def test_brokers_that_do_not_say_how_long_they_remember_producers_are_named() -> None:
    assert FlowPreview(flow=FLOW, topics=(), left_out=0).expiry_text() == ""
    text = FlowPreview(flow=FLOW, topics=(), left_out=0, unread_expiry=(1, 3)).expiry_text()
    assert "producer.id.expiration.ms may not be read of 2 brokers of cluster 'B' (1, 3)" in text
    assert "grant DescribeConfigs on the cluster" in text


def test_json_is_one_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mm2.properties"
    path.write_text(
        "clusters = A, B\nA.bootstrap.servers = 127.0.0.1:1\nB.bootstrap.servers = 127.0.0.1:2\n"
        "A->B.enabled = true\nA->B.topics = t\n"
    )
    flow = FlowPreview(flow=FLOW, topics=(TOPIC,), left_out=0)
    monkeypatch.setattr(check, "prepare", lambda config: (load_config(config), (flow,)))
    assert main.main(["check", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["ready"] is True
    assert [topic["target"] for topic in found["flows"][0]["topics"]] == ["A.t"]
