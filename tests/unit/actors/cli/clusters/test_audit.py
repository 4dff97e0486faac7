"""`raymirror audit`, and the audit trail of `apply`."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from actors.cli import main
from actors.cli.clusters import apply
from actors.cli.clusters.audit import what_of
from actors.cli.common import exits
from engine.config.settings import FlowConfig, MirrorConfig
from engine.config.storage import Storage
from engine.flow.config_sync.audit import Run
from engine.flow.config_sync.sync import ConfigSync
from engine.services.config_service import config_sync_options
from policies.model import FlowName
from tests.fakes.settings import FakeSettings
from tests.unit.engine.config_files import BASE
from tests.unit.engine.jobs.audit.test_store import row
from tests.unit.engine.jobs.upgrade.test_old_audit import write_old


class Stage:
    """Two clusters, a configuration of a flow between them, and a storage."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.source, self.target = FakeSettings("A"), FakeSettings("B")
        self.path, self.storage = folder / "mm2.properties", folder / "storage"
        self.write(f"raymirror.storage = file:{self.storage}\n")

        @asynccontextmanager
        async def opened(_config: MirrorConfig, flow: FlowConfig, _client_id: str) -> AsyncIterator[ConfigSync]:
            yield ConfigSync(config_sync_options(flow), self.source, self.target)

        monkeypatch.setattr(apply, "config_sync", opened)

    def write(self, more: str) -> None:
        self.path.write_text(f"{BASE}replication.factor = 1\n{more}")

    def run(self, command: str, *words: str) -> int:
        return main.main([command, str(self.path), *words])


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(tmp_path, monkeypatch)


def test_what_was_applied_is_told_with_who_and_why(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.source.put("orders", 2, retention_ms="5")
    stage.source.put("clicks")
    stage.target.put("A.orders", 1, retention_ms="6")
    stage.target.put("A.clicks", 3)
    assert stage.run("apply") == exits.OK
    capsys.readouterr()
    assert stage.run("audit", "--json") == exits.OK
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [
        (row["target"], row["change"], row["name"], row["before"], row["after"], row["outcome"]) for row in rows
    ] == [
        ("A.orders", "grow_topic", "partitions", "1", "2", "done"),
        ("A.orders", "set_config", "retention.ms", "6", "5", "done"),
        ("A.clicks", "conflict", "more partitions", "", "", "left"),
    ]
    assert all("raymirror apply" in row["who"] for row in rows)
    assert len({row["run"] for row in rows}) == 1
    assert stage.run("audit", "orders") == exits.OK
    told = capsys.readouterr().out
    assert "retention.ms 6 -> 5" in told
    assert "the source topic sets it" in told
    assert "A.clicks" not in told
    assert stage.run("audit", "A.clicks", "--flow", "A->B") == exits.OK
    assert "left: the copy has 3 partitions" in capsys.readouterr().out
    assert stage.run("audit", "--since", "2999-01-01T00:00:00Z") == exits.OK
    assert capsys.readouterr().out == "nothing was changed\n"


def test_the_trail_of_an_earlier_version_is_named_until_it_is_converted(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    write_old(Storage.of_folder(stage.storage), "1970-01-01", "5-x-1", row("orders", 5))
    assert stage.run("audit") == exits.OK
    told = capsys.readouterr()
    assert told.out == "nothing was changed\n"
    assert f"{stage.storage}/audit is in no table yet: raymirror tables convert --storage file:" in told.err
    assert main.main(["tables", "convert", "--storage", f"file:{stage.storage}"]) == exits.OK
    assert "1 row added to table audit" in capsys.readouterr().out
    assert stage.run("audit") == exits.OK
    told = capsys.readouterr()
    assert "A.orders" in told.out
    assert told.err == ""


def test_nothing_to_do_leaves_no_file(stage: Stage) -> None:
    stage.source.put("orders")
    stage.target.put("A.orders")
    assert stage.run("apply") == exits.OK
    assert not stage.storage.exists()


def test_a_trail_that_cannot_be_written_is_said_and_fails_a_script(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    stage.source.put("orders", retention_ms="5")
    stage.target.put("A.orders")
    stage.storage.write_text("a file")
    assert stage.run("apply") == exits.FAILED
    assert stage.target.own["A.orders"] == {"retention.ms": "5"}
    assert "done, but: audit trail at" in capsys.readouterr().err


def test_questions_that_have_no_answer_say_what_would_be_right(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    assert stage.run("audit", "--flow", "x->y") == exits.UNUSABLE
    assert "use one of 'A->B'" in capsys.readouterr().err
    stage.write("")
    assert stage.run("audit") == exits.UNUSABLE
    assert "raymirror.storage is not set" in capsys.readouterr().err


def test_every_change_has_its_words() -> None:
    run = Run(id="1", at_ms=1, flow=FlowName("A", "B"), who="ann")
    words = [
        what_of(run.row(topic="t", target="A.t", change=change, name="n", before="1", after="2"))
        for change in (
            "create_topic",
            "grow_topic",
            "set_config",
            "drop_config",
            "add_acl",
            "conflict",
            "prepare_topic",
        )
    ]
    assert words == [
        "topic created: 2 n",
        "n 1 -> 2",
        "n 1 -> 2",
        "n 1 -> the default",
        "ACL added: 2",
        "conflict: n",
        "prepare topic",
    ]
