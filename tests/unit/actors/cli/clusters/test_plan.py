"""`raymirror plan` and `apply` on clusters in memory: output and exit codes."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from actors.cli import main
from actors.cli.clusters import apply, plan
from actors.cli.common import exits
from engine.config.settings import FlowConfig, MirrorConfig
from engine.flow.config_sync.sync import ConfigSync
from engine.services.config_service import config_sync_options
from policies.sync.acl_sync import Binding
from tests.fakes.settings import FakeSettings
from tests.unit.engine.config_files import BASE

READ = Binding(2, "orders", 3, "User:ann", "*", 3, 3)


class Stage:
    """Two clusters, and a configuration of a flow between them."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.source, self.target = FakeSettings("A"), FakeSettings("B")
        self.handed_over: tuple[str, ...] = ()
        self.path = folder / "mm2.properties"
        self.write("")

        @asynccontextmanager
        async def opened(_config: MirrorConfig, flow: FlowConfig, _client_id: str) -> AsyncIterator[ConfigSync]:
            yield ConfigSync(config_sync_options(flow), self.source, self.target, self.handed_over)

        for module in (plan, apply):
            monkeypatch.setattr(module, "config_sync", opened)

    def write(self, more: str) -> None:
        self.path.write_text(f"{BASE}replication.factor = 1\n{more}")

    def run(self, command: str, *words: str) -> int:
        return main.main([command, str(self.path), *words])


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(tmp_path, monkeypatch)


def told(capsys: pytest.CaptureFixture[str]) -> Any:
    """Parse what was printed as JSON."""
    return json.loads(capsys.readouterr().out)


def test_a_plan_changes_nothing_and_an_application_leaves_nothing(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    stage.source.put("orders", 2, retention_ms="5")
    stage.source.put("clicks", 3, retention_ms="7", cleanup_policy="compact")
    stage.source.put("new", 1, segment_bytes="9")
    stage.target.put("A.orders", 1)
    stage.target.put("A.clicks", 4, retention_ms="6")
    stage.source.bindings = {READ}
    assert stage.run("plan") == exits.CHANGES
    said = capsys.readouterr().out
    assert stage.target.writes == []
    assert "A->B: 3 topics compared, 6 changes" in said
    lines = [" ".join(line.split()) for line in said.splitlines()]
    assert "+ A.new topic - 1 partition, 1 replica, segment.bytes=9" in lines
    assert "+ A.orders partitions 1 2" in lines
    assert "~ A.clicks retention.ms 6 7" in lines
    assert "+ A.clicks cleanup.policy delete (a default) compact" in lines
    assert "+ A.orders ACL - ALLOW READ on topic 'A.orders' for User:ann from *" in lines
    assert "conflict, left as it is: A.clicks: the copy has 4 partitions, the source 3: they are never removed" in lines
    assert stage.run("apply") == exits.OK
    assert "6 changes done, 0 failed" in capsys.readouterr().out
    assert len(stage.target.writes) == 6
    assert stage.run("plan") == exits.OK
    assert "nothing to do" in capsys.readouterr().out
    assert stage.run("apply") == exits.OK
    assert len(stage.target.writes) == 6


def test_json_has_everything(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.source.put("orders", 1, retention_ms="5")
    stage.target.put("A.orders", 1, segment_bytes="9")
    assert stage.run("plan", "--json") == exits.CHANGES
    (flow,) = told(capsys)["flows"]
    assert flow["flow"] == "A->B"
    (change,) = flow["changes"]
    assert (change["change"], change["target"], change["name"]) == ("set_config", "A.orders", "retention.ms")
    assert flow["left"] == [{"target": "A.orders", "name": "segment.bytes", "value": "9"}]
    assert stage.run("apply", "--json") == exits.OK
    (flow,) = told(capsys)["flows"]
    assert [outcome["failure"] for outcome in flow["outcomes"]] == [""]


def test_a_copy_that_lacks_a_config_is_said(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.source.put("orders", 1, retention_ms="5", brand_new="6")
    assert stage.run("apply") == exits.OK
    said = " ".join(capsys.readouterr().out.split())
    assert "1 change done, 0 failed" in said
    assert (
        "done in part: A.orders was created without configs that the target does not know: config brand.new: upgrade"
        " the target, or add brand.new to config.properties.exclude" in said
    )
    assert "topic - 1 partition, 1 replica, retention.ms=5" in said
    stage.source.put("orders", 1, retention_ms="7", brand_new="6")
    assert stage.run("plan") == exits.CHANGES
    assert "conflict, left as it is: A.orders: the target does not know config brand.new" in capsys.readouterr().out


def test_what_goes_is_shown_with_its_reason(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.write("raymirror.sync.configs.foreign = remove\n")
    stage.source.put("orders")
    stage.target.put("A.orders", segment_bytes="9")
    assert stage.run("plan") == exits.CHANGES
    said = " ".join(capsys.readouterr().out.split())
    assert "- A.orders segment.bytes 9 a default: the source topic does not have it" in said


def test_what_is_left_and_what_is_switched_off_is_said(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.source.put("orders")
    for number in range(25):
        stage.source.put(f"t{number}")
        stage.target.put(f"A.t{number}", segment_bytes="9")
    stage.target.put("A.orders")
    stage.source.bindings = {READ._replace(name="ord", pattern=4)}
    stage.run("plan")
    said = capsys.readouterr().out
    assert "set on the copy only, left as it is: and 5 more" in said
    assert "no counterpart on the target: ALLOW READ on topic prefix 'ord'" in said
    stage.source.has_authorizer = False
    stage.run("plan")
    assert "no ACLs: cluster 'A' has no authorizer" in capsys.readouterr().out
    stage.write("sync.topic.configs.enabled = false\nsync.topic.acls.enabled = false\n")
    assert stage.run("plan") == exits.OK
    said = capsys.readouterr().out
    assert "sync.topic.configs.enabled = false" in said
    assert "sync.topic.acls.enabled = false" in said


def test_what_fails_is_told_and_decides_the_exit_code(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(25):
        stage.source.put(f"t{number}", retention_ms="5")
        stage.target.put(f"A.t{number}")
    stage.source.put("t0")
    stage.source.failing["t0"] = "TopicAuthorizationFailed"
    assert stage.run("plan") == exits.FAILED
    assert "could not be read: t0: TopicAuthorizationFailed" in capsys.readouterr().out
    assert stage.run("apply") == exits.FAILED
    stage.source.failing.clear()
    stage.source.bindings = {READ._replace(name=f"t{number}") for number in range(25)}
    stage.target.refused_bindings = {READ._replace(name=f"A.t{number}"): "denied" for number in range(25)}
    capsys.readouterr()
    assert stage.run("apply") == exits.FAILED
    said = capsys.readouterr().out
    assert "0 changes done, 25 failed" in said
    assert "failed: denied" in said
    assert "failed: and 5 more" in said


def test_a_flow_that_is_not_there_is_bad_input(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    assert stage.run("plan", "--flow", "B->A") == exits.UNUSABLE
    assert "use one of 'A->B'" in capsys.readouterr().err
    assert stage.run("plan", "--flow", "A->B") == exits.OK


def test_the_brokers_default_of_replicas(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.path.write_text(f"{BASE}replication.factor = -1\n")
    stage.source.put("orders")
    assert stage.run("plan") == exits.CHANGES
    assert "the broker's default number of replicas" in capsys.readouterr().out


def test_a_copy_that_producers_write_to_since_a_move_is_left_alone_and_named(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    """Operators empty a source topic by its retention once nobody uses it."""
    for topic in ("orders", "moved"):
        stage.source.put(topic, 2, retention_ms="1")
        stage.target.put(f"A.{topic}", 1)
    stage.source.put("new")
    stage.handed_over = ("moved", "new")
    left = "left as it is, because its producers write to the copy since a move: "
    for command, code in (("plan", exits.CHANGES), ("apply", exits.OK), ("plan", exits.OK)):
        assert stage.run(command) == code
        said = capsys.readouterr().out
        assert f"{left}moved\n{left}new\n" in said
    assert stage.target.writes == ["grow A.orders", "A.orders: retention.ms=1"]
    stage.source.bindings = {READ._replace(name="moved")}
    assert stage.run("apply", "--json") == exits.OK
    (flow,) = told(capsys)["flows"]
    assert flow["looked"]["handed_over"] == ["moved", "new"]
    assert len(stage.target.bindings) == 1, "consumers of the copy get their rights"
