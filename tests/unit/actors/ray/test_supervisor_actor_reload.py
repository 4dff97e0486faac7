"""A reload in the supervisor actor: all or nothing, and the configuration after a death during it."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from actors.config.config_ref import ConfigMissing, refer
from actors.config.difference import ADDED, CHANGED, UNTOUCHED, ConfigDifference
from actors.config.file_watch import ReloadOutcome
from actors.config.reload_errors import CannotReload, ReloadBusy, ReloadFailed
from actors.config.settings_change import CannotChange
from actors.model.messages import ConfigRef, MirrorSpec
from actors.model.needs import CopierNeeds
from actors.model.states import UnknownFlow
from actors.ray.reload import successor
from actors.ray.supervisor_actor import FAILED
from engine.base.errors import ConfigError
from engine.config.settings import MirrorConfig
from policies.model import FlowName
from tests.unit.actors.ray.test_supervisor_actor import Stage

PLACES = "clusters = A, B, C\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nC.bootstrap.servers = c:1\n"
BASE = "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"
MORE = PLACES + "A->B.enabled = true\nA->C.enabled = true\n"


class Kept:
    """Ray's control store: what the supervisor was last told to be."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.specs: list[MirrorSpec] = []
        self.failure: Exception | None = None
        self.forgotten = 0
        monkeypatch.setattr("actors.ray.supervisor_actor.keep_spec", self._keep)
        monkeypatch.setattr("actors.ray.supervisor_actor.kept_spec", self._kept)
        monkeypatch.setattr("actors.ray.supervisor_actor.forget_spec", self._forget)

    def _keep(self, spec: bytes) -> None:
        if self.failure is not None:
            raise self.failure
        self.specs.append(msgspec.msgpack.decode(spec, type=MirrorSpec))

    def _kept(self) -> bytes | None:
        return msgspec.msgpack.encode(self.specs[-1]) if self.specs else None

    def _forget(self) -> None:
        self.forgotten += 1


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Kept:
    return Kept(monkeypatch)


@pytest.fixture
async def stage(kept: Kept, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Stage:
    monkeypatch.setattr("actors.ray.supervisor_actor.END_S", 0.0)
    made = Stage(monkeypatch, tmp_path)
    await made.until(lambda status: status.phase == "starting")
    return made


def ref(stage: Stage, text: str) -> bytes:
    stage.file.write_text(text)
    return msgspec.msgpack.encode(refer(stage.file))


async def compare(stage: Stage, text: str) -> ConfigDifference:
    return msgspec.msgpack.decode(await stage.shell.compare(ref(stage, text)), type=ConfigDifference)


async def reload(stage: Stage, text: str, running: str = "") -> ConfigDifference:
    found = await compare(stage, text)
    return msgspec.msgpack.decode(
        await stage.shell.reload(msgspec.msgpack.encode(refer(stage.file)), running or found.running),
        type=ConfigDifference,
    )


async def test_a_difference_is_told_and_nothing_is_changed(stage: Stage, kept: Kept) -> None:
    found = await compare(stage, MORE)
    assert (found.named(UNTOUCHED), found.named(ADDED)) == (("A->B",), ("A->C",))
    assert [flow.flow for flow in (await stage.status()).flows] == ["A->B"]
    assert not kept.specs
    await stage.end()


async def test_it_is_taken_over_by_every_part(stage: Stage, kept: Kept) -> None:
    found = await reload(stage, MORE)
    assert found.named(ADDED) == ("A->C",)
    status = await stage.status()
    assert [flow.flow for flow in status.flows] == ["A->B", "A->C"]
    assert status.config_digest == found.new
    assert [spec.config.digest for spec in kept.specs] == [found.new]
    assert stage.metadata.reloaded == [(kept.specs[0], (FlowName("A", "B"), FlowName("A", "C")))]
    assert stage.needs == dict.fromkeys((FlowName("A", "B"), FlowName("A", "C")), CopierNeeds(0, ""))
    assert any("by a reload: the flow is added" in event.text for event in status.events)
    again = await compare(stage, MORE)
    assert (again.running, again.is_none) == (found.new, True)
    await stage.end()
    assert kept.forgotten == 1, "a mirror that has ended leaves nothing behind"


async def test_an_edited_file_is_no_news_once_it_was_taken_over(stage: Stage, kept: Kept) -> None:
    stage.file.write_text(MORE)
    await stage.until(lambda status: any("raymirror reload" in event.text for event in status.events))
    await reload(stage, MORE)
    stage.file.write_text(MORE + "# more\n")
    await stage.until(lambda status: sum("was edited" in event.text for event in status.events) >= 2)
    await stage.end()


async def test_a_watched_file_is_applied_by_the_command_and_a_refusal_is_an_event(
    stage: Stage, kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    applied: list[tuple[str, str]] = []

    def apply(path: str, namespace: str, address: str) -> ReloadOutcome:
        applied.append((path, namespace))
        return ReloadOutcome(2, "line 5: no such key")

    monkeypatch.setattr("actors.ray.supervisor_actor.LOOK_S", 0.01)
    monkeypatch.setattr("actors.ray.supervisor_actor.apply_file", apply)
    await stage.end()
    watching = Stage(monkeypatch, stage.file.parent, text=BASE + "raymirror.reload = watch\n")
    await watching.until(lambda status: status.phase == "starting")
    watching.file.write_text(MORE)
    await watching.until(lambda status: any("line 5: no such key" in event.text for event in status.events))
    status = await watching.status()
    assert applied == [(str(watching.file), "raymirror-t")]
    assert not any("was edited: the mirror continues" in event.text for event in status.events)
    assert [flow.flow for flow in status.flows] == ["A->B"]
    await watching.end()


async def file_plan(stage: Stage) -> ConfigDifference:
    return msgspec.msgpack.decode(await stage.shell.file_plan(), type=ConfigDifference)


async def test_the_file_as_it_is_now_is_compared(stage: Stage, kept: Kept) -> None:
    before = await file_plan(stage)
    assert before.running == before.new
    stage.file.write_text(MORE)
    found = await file_plan(stage)
    assert (found.running, found.named(ADDED)) == (before.running, ("A->C",))
    assert found.new != found.running
    assert not kept.specs
    await stage.end()


async def test_a_file_that_is_gone_or_cannot_be_read_cannot_be_compared(stage: Stage, kept: Kept) -> None:
    stage.file.write_text("A->B.enabled = perhaps\n")
    with pytest.raises(ConfigError):
        await stage.shell.file_plan()
    stage.file.unlink()
    with pytest.raises(ConfigMissing):
        await stage.shell.file_plan()
    stage.file.mkdir()
    with pytest.raises(CannotReload, match="cannot be read"):
        await stage.shell.file_plan()
    await stage.end()


async def test_a_file_is_applied_by_the_command_if_it_is_the_one_that_was_looked_at(
    stage: Stage, kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    applied: list[str] = []
    outcome = ReloadOutcome(0)

    def apply(path: str, namespace: str, address: str) -> ReloadOutcome:
        applied.append(f"{namespace} {path}")
        return outcome

    monkeypatch.setattr("actors.ray.supervisor_actor.apply_file", apply)
    stage.file.write_text(MORE)
    new = (await file_plan(stage)).new
    with pytest.raises(ReloadBusy, match="was edited since it was looked at"):
        await stage.shell.apply_present("another")
    assert not applied
    await stage.shell.apply_present(new)
    assert applied == [f"raymirror-t {stage.file}"]
    outcome = ReloadOutcome(2, "cluster C does not answer")
    with pytest.raises(CannotReload, match="cluster C does not answer"):
        await stage.shell.apply_present(new)
    await stage.end()


async def test_what_cannot_be_changes_nothing(stage: Stage, kept: Kept) -> None:
    with pytest.raises(CannotReload, match=r"nothing was changed:\n  A->B: A->B\.raymirror\.connector\.name"):
        await reload(stage, BASE + "A->B.raymirror.connector.name = x\n")
    assert not kept.specs
    await stage.end()


async def test_who_comes_second_is_told(stage: Stage, kept: Kept) -> None:
    await reload(stage, MORE)
    with pytest.raises(ReloadBusy, match="another reload has come first"):
        await reload(stage, BASE, running="of before")
    assert len(kept.specs) == 1
    await stage.end()


async def test_while_a_removed_flow_drains_no_other_reload_is_taken(
    stage: Stage, kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    await reload(stage, MORE)
    monkeypatch.setattr("actors.control.supervisor.Supervisor.is_reloading", True)
    with pytest.raises(ReloadBusy, match="still being drained"):
        await reload(stage, BASE)
    monkeypatch.undo()


async def test_a_mirror_that_ends_takes_nothing_over(stage: Stage, kept: Kept) -> None:
    running = (await compare(stage, MORE)).running
    new = ref(stage, MORE)
    await stage.end()
    with pytest.raises(ReloadBusy, match="ending"):
        await stage.shell.reload(new, running)


async def test_a_file_that_is_another_where_the_supervisor_runs_is_refused(stage: Stage, kept: Kept) -> None:
    new = ref(stage, MORE)
    stage.file.write_text(BASE)
    with pytest.raises(CannotReload, match="not the one that was checked"):
        await stage.shell.compare(new)
    await stage.end()


async def test_one_that_cannot_know_what_was_kept_begins_again(stage: Stage, kept: Kept) -> None:
    kept.failure = OSError("the control store does not answer")
    with pytest.raises(ReloadFailed, match="the whole old or the whole new configuration"):
        await reload(stage, MORE)
    await stage.until(lambda _: bool(stage.codes))
    assert stage.codes == [FAILED]
    assert [flow.flow for flow in (await stage.status()).flows] == ["A->B"], "nothing follows what was not kept"
    await stage.end()


async def test_one_that_dies_after_it_was_kept_begins_with_the_new_one(
    stage: Stage, kept: Kept, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken(*_words: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(stage.metadata, "reload", broken)
    with pytest.raises(ReloadFailed, match="a bug"):
        await reload(stage, MORE)
    await stage.until(lambda _: bool(stage.codes))
    later = Stage(monkeypatch, tmp_path)  # with the words of the first start, as Ray starts it
    later.file.write_text(MORE)
    await later.until(lambda status: len(status.flows) == 2)
    assert (await later.status()).config_digest == kept.specs[0].config.digest
    await later.end()
    await stage.end()


async def test_metrics_go_where_the_new_file_says(stage: Stage, kept: Kept) -> None:
    assert stage.shell._parts is not None
    telemetry = stage.shell._parts.telemetry
    before = telemetry._exporter
    found = await reload(stage, BASE + "raymirror.metrics.max.series = 7\n")
    assert found.named(CHANGED) == ()
    assert telemetry._exporter is not before
    await reload(stage, BASE + "raymirror.metrics.max.series = 7\ntopics = x\n")
    assert telemetry._exporter is not before
    await stage.end()


async def test_spark_begins_again_where_it_is_on(stage: Stage, kept: Kept) -> None:
    parts = stage.shell._parts
    assert parts is not None
    before = parts.spark
    await reload(stage, BASE + "topics = x\n")
    assert parts.spark is before, "there is none, and none is asked for"
    await reload(stage, BASE + "raymirror.spark = on\n")
    assert parts.spark is not before
    await stage.end()


def test_a_flow_is_added_once_and_a_stop_of_later_stays() -> None:
    spec = MirrorSpec(
        config=ConfigRef(path="/c", digest="d"), namespace="raymirror-t", version="0", deployment_id="x", drain_s=1.0
    )
    one = successor(spec, ConfigRef(path="/c", digest="e"), ("A->B",), 5)
    two = successor(one, ConfigRef(path="/c", digest="f"), ("A->C",), 7)
    assert two.added_ms == {"A->B": 5, "A->C": 7}
    assert successor(two, ConfigRef(path="/c", digest="g"), ("A->B",), 9).added_ms == {"A->B": 9, "A->C": 7}
    assert two.config.digest == "f"
    assert (two.deployment_id, two.namespace) == (spec.deployment_id, spec.namespace)


async def test_settings_are_changed_in_the_file_and_applied(stage: Stage, kept: Kept) -> None:
    stage.file.write_text(BASE)
    await reload(stage, f"# by hand\n{BASE}")
    await stage.shell.change_settings("A->B", {"topics": "t.*"})
    assert stage.file.read_text() == f"# by hand\n{BASE}A->B.topics = t.*\n"
    status = await stage.status()
    assert status.config_digest == refer(stage.file).digest == kept.specs[-1].config.digest
    assert kept.specs[-1].config.kept["A->B.topics"] == "t.*"
    await stage.shell.change_settings("A->B", {"topics": None})
    assert stage.file.read_text() == f"# by hand\n{BASE}"
    await stage.end()


async def test_a_change_of_settings_that_is_refused_leaves_file_and_mirror(stage: Stage, kept: Kept) -> None:
    before = stage.file.read_text()
    with pytest.raises(CannotReload, match="cannot change while the flow is mirrored"):
        await stage.shell.change_settings("A->B", {"replication.policy.separator": "_"})
    with pytest.raises(UnknownFlow):
        await stage.shell.change_settings("A->C", {"topics": "t"})
    assert (stage.file.read_text(), kept.specs) == (before, [])
    await stage.end()


async def test_a_change_that_comes_too_late_is_taken_back(
    stage: Stage, kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def busy(*_args: object) -> bytes:
        raise ReloadBusy("the mirror is ending")

    before = stage.file.read_text()
    monkeypatch.setattr(stage.shell, "reload", busy)
    with pytest.raises(ReloadBusy):
        await stage.shell.change_settings("A->B", {"topics": "t"})
    assert (stage.file.read_text(), kept.specs) == (before, [])
    await stage.end()


async def test_a_caller_that_goes_away_leaves_no_half_change(
    stage: Stage, kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, free = asyncio.Event(), asyncio.Event()
    reload_of_it = stage.shell.reload

    async def slow(config: bytes, running: str) -> bytes:
        begun.set()
        await free.wait()
        return await reload_of_it(config, running)

    monkeypatch.setattr(stage.shell, "reload", slow)
    caller = asyncio.create_task(stage.shell.change_settings("A->B", {"topics": "t"}))
    await begun.wait()
    caller.cancel()
    await asyncio.wait([caller])
    assert not kept.specs
    free.set()
    await stage.until(lambda _status: bool(kept.specs))
    assert kept.specs[-1].config.digest == refer(stage.file).digest
    await stage.end()


async def test_a_flow_is_added_to_the_file_and_begun(stage: Stage, kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.config.checks.ask_clusters", lambda config, _absent: (config, _checked(config)))
    before = stage.file.read_text()
    await stage.shell.create_flow("B", "A", {"topics": "t"})
    assert stage.file.read_text() == f"{before}B->A.enabled = true\nB->A.topics = t\n"
    assert [flow.flow for flow in (await stage.status()).flows] == ["A->B", "B->A"]
    assert kept.specs[-1].added_ms.keys() == {"B->A"}
    with pytest.raises(CannotChange, match="B->A is in the file already"):
        await stage.shell.create_flow("B", "A", {"topics": "t"})
    await stage.end()


async def test_a_flow_for_which_the_mirrors_own_ray_has_no_room_is_refused(
    stage: Stage, kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.config.checks.ask_clusters", lambda config, _absent: (config, _checked(config)))
    monkeypatch.setattr("actors.ray.reload.session.living", lambda _env, _name: (SimpleNamespace(local=True),))
    monkeypatch.setattr("actors.ray.reload.ray.cluster_resources", lambda: {"CPU": 2.0})
    before = stage.file.read_text()
    with pytest.raises(CannotReload, match="needs 3 logical CPUs with this flow, and its Ray was started with 2"):
        await stage.shell.create_flow("B", "A", {"topics": "t"})
    assert (stage.file.read_text(), kept.specs) == (before, [])
    await stage.end()


def _checked(config: MirrorConfig) -> tuple[Any, ...]:
    return tuple(SimpleNamespace(flow=flow.name) for flow in config.flows)
