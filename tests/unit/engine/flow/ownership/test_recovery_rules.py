"""Topics created again and sources with holes, with topic rules that let the lane continue."""

import msgspec
import pytest

from engine.base.errors import ConnectionLost
from engine.core.events.events import ForeignWriter, IdentityChanged, SourceGap, TopicRenewed
from engine.core.lane.states import State
from engine.flow.ports.options import FlowOptions
from engine.flow.ports.ports import Leader
from engine.flow.replication.copier import FlowCopier
from policies.model import TopicPartition
from policies.start import Earliest
from policies.sync.topic_faults import FaultRules, OnGap, OnRenewal, parse_choices
from tests.unit.engine.flow.stage import TERMS, Stage, until

SOURCE, COPY = TopicPartition("t", 0), TopicPartition("A.t", 0)


class Mended(Stage):
    """A lane that goes on, by rules that are given."""

    def __init__(self, *, gap: str = "fail", renewal: str = "fail", commit_s: float = 0.0) -> None:
        rules = FaultRules(parse_choices([gap], OnGap), parse_choices([renewal], OnRenewal))
        self.options = msgspec.structs.replace(TERMS, faults=rules, commit_s=commit_s)
        super().__init__()

    def new_copier(self, options: FlowOptions = TERMS) -> FlowCopier:
        return FlowCopier(self.options, self.a, self.b, lambda _topic: Earliest())

    def again(self) -> None:
        self.copier = self.new_copier()
        self.assign(epoch=2)

    async def settled(self) -> None:
        driver = self.driver()
        await until(lambda: driver.lane.state is State.COPYING and driver.lane.in_flight == 0 and driver.lane.announced)

    def renew_source(self) -> None:
        self.sources[0] = self.a.source("t")
        self.a.leader[SOURCE] = Leader(1, 4, "id-t-2")

    def renew_target(self) -> None:
        self.targets[0] = self.b.target("A.t")
        self.b.leader[COPY] = Leader(1, 0, "id-A.t-2")

    def look(self) -> None:
        self.copier.router.leaders.look_up([self.driver()])
        self.a.grow()

    def only(self, kind: type[TopicRenewed]) -> TopicRenewed:
        (event,) = self.told(kind)
        assert isinstance(event, kind)
        return event


def numbers(*ranges: range) -> list[int]:
    return [number for one in ranges for number in one]


# --- gaps ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("running", [True, False], ids=["running", "at resume"])
async def test_behind_a_hole_copying_goes_on(running: bool) -> None:
    stage = Mended(gap="continue")
    stage.sources[0].data(2)
    stage.assign()
    async with stage.running():
        await until(stage.whole)
        if running:
            stage.sources[0].data(2)
            stage.sources[0].data(3)
            stage.sources[0].start = 4
            stage.a.grow()
            await until(lambda: stage.copied() == [0, 1, 4, 5, 6])
    if not running:
        stage.sources[0].data(2)
        stage.sources[0].data(3)
        stage.sources[0].start = 4
        stage.again()
        async with stage.running():
            await until(lambda: stage.copied() == [0, 1, 4, 5, 6])
    (gap,) = stage.told(SourceGap)
    assert isinstance(gap, SourceGap)
    assert (gap.first, gap.last, gap.goes_on_at) == (2, 3, 4)
    assert [(run.source, run.count) for run in stage.stored().map_tail] == [(0, 2), (4, 3)]
    assert stage.stored().map_first


@pytest.mark.parametrize("running", [True, False], ids=["running", "at resume"])
async def test_where_the_source_ends_before_the_position_what_it_has_from_there_on_is_copied(running: bool) -> None:
    stage = Mended(gap="continue")
    stage.sources[0].data(2)
    stage.sources[0].data(3)
    stage.assign()
    async with stage.running():
        await until(stage.whole)
        if running:
            stage.sources[0].truncate(2)
            stage.look()
            await until(lambda: stage.told(SourceGap))
            stage.sources[0].data(1)
            stage.a.grow()
            await until(lambda: stage.copied() == [0, 1, 2, 3, 4, 2])
    if not running:
        stage.sources[0].truncate(2)
        stage.again()
        async with stage.running():
            await until(lambda: stage.told(SourceGap))
            stage.sources[0].data(1)
            stage.a.grow()
            await until(lambda: stage.copied() == [0, 1, 2, 3, 4, 2])
    (gap,) = stage.told(SourceGap)
    assert isinstance(gap, SourceGap)
    assert (gap.first, gap.last, gap.goes_on_at) == (2, 4, 2)
    assert [(run.source, run.count) for run in stage.stored().map_tail] == [(0, 2), (2, 1)]


@pytest.mark.parametrize("running", [True, False], ids=["running", "at resume"])
async def test_from_where_its_history_parts_the_source_is_copied_anew(running: bool) -> None:
    stage = Mended(gap="continue")
    stage.sources[0].data(2)
    stage.sources[0].data(3)
    stage.assign()

    def other_history() -> None:
        stage.sources[0].truncate(2)
        stage.sources[0].data(7)  # as many and more again, but not the same

    async with stage.running():
        await until(stage.whole)
        await stage.settled()
        if running:
            other_history()
            stage.a.grow()
            await until(lambda: stage.copied() == numbers(range(5), range(2, 9)))
    if not running:
        other_history()
        stage.again()
        async with stage.running():
            await until(lambda: stage.copied() == numbers(range(5), range(2, 9)))
    (gap,) = stage.told(SourceGap)
    assert isinstance(gap, SourceGap)
    assert (gap.first, gap.last, gap.goes_on_at) == (2, 4, 2)
    assert "history diverges" in gap.cause
    stage.again()
    async with stage.running():  # told once: the position is behind it now
        stage.sources[0].data(1)
        stage.a.grow()
        await until(lambda: stage.copied() == numbers(range(5), range(2, 10)))
    assert len(stage.told(SourceGap)) == 1


# --- topics made anew ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("commit_s", [0.0, 0.05], ids=["plain", "in transactions"])
@pytest.mark.parametrize("running", [True, False], ids=["running", "at resume"])
async def test_a_source_topic_made_anew_is_copied_behind_the_old_copy(running: bool, commit_s: float) -> None:
    stage = Mended(renewal="append", commit_s=commit_s)
    stage.sources[0].data(5)
    stage.assign()
    async with stage.running():
        await until(stage.whole)
        await stage.settled()
        if running:
            stage.renew_source()
            stage.sources[0].data(3)
            stage.look()
            await until(lambda: stage.copied() == numbers(range(5), range(3)))
    if not running:
        stage.renew_source()
        stage.sources[0].data(3)
        stage.again()
        async with stage.running():
            await until(lambda: stage.copied() == numbers(range(5), range(3)))
    event = stage.only(TopicRenewed)
    assert (event.source_renewed, event.target_renewed, event.choice) == (True, False, "append")
    assert (event.copied, event.source_offset) == (5, 0)
    assert stage.told(IdentityChanged) == []
    stored = stage.stored()
    assert (stored.source_topic_id, stored.source_next, stored.map_first) == ("id-t-2", 3, True)
    assert sum(run.count for run in stored.map_tail) == 3
    assert stored.map_source == 0


async def test_records_of_the_former_topic_that_no_position_tells_of_are_told() -> None:
    stage = Mended(renewal="append")
    stage.options = msgspec.structs.replace(stage.options, flush_s=3600.0, unsynced_s=3600.0, epoch_s=3600.0)
    stage.copier = stage.new_copier()
    stage.assign()
    async with stage.running():
        await stage.settled()
        stage.sources[0].data(5)
        stage.a.grow()
        await until(stage.whole)
        stage.copier.hold()  # what follows finds an old position
        behind = stage.stored().source_next
        stage.renew_source()
        stage.sources[0].data(1)
        stage.copier.unhold()
        stage.look()
        await until(lambda: stage.copied() == numbers(range(5), range(1)))
    assert behind == 0
    assert stage.only(TopicRenewed).copied == 5


async def test_a_copy_made_anew_gets_what_comes_behind_the_position() -> None:
    stage = Mended(renewal="append")
    stage.sources[0].data(5)
    stage.assign()
    async with stage.running():
        await until(stage.whole)
        await until(lambda: stage.stored().source_next == 5)
        stage.renew_target()
        stage.sources[0].data(2)
        stage.look()
        await until(lambda: stage.copied() == [5, 6])
    event = stage.only(TopicRenewed)
    assert (event.source_renewed, event.target_renewed, event.copied, event.source_offset) == (False, True, 5, 5)
    assert "it has no records that were copied before" in event.text()
    stored = stage.stored()
    assert (stored.map_source, stored.map_first) == (5, False)  # who stands before it has no answer


async def test_a_copy_made_anew_gets_everything_again_where_that_was_asked_for() -> None:
    stage = Mended(renewal="re-create")
    stage.sources[0].data(5)
    stage.assign()
    async with stage.running():
        await until(stage.whole)
        stage.renew_target()
        stage.look()
        await until(stage.whole)
    assert stage.only(TopicRenewed).source_offset == 0
    assert stage.stored().map_first


async def test_where_the_copy_is_to_be_made_anew_the_lane_waits_for_that() -> None:
    stage = Mended(renewal="re-create")
    stage.sources[0].data(5)
    stage.assign()
    async with stage.running():
        await until(stage.whole)
        await stage.settled()
        stage.renew_source()
        stage.sources[0].data(3)
        stage.look()
        await until(lambda: "waits until A.t is deleted" in stage.driver().health.reason)
        assert stage.copied() == [0, 1, 2, 3, 4]
        stage.renew_target()
        await until(stage.whole)
    event = stage.only(TopicRenewed)
    assert (event.source_renewed, event.target_renewed, event.choice) == (True, True, "re-create")
    assert stage.copied() == [0, 1, 2]


async def test_a_stranger_in_the_new_copy_stops_the_lane_as_ever() -> None:
    stage = Mended(renewal="append")
    stage.sources[0].data(5)
    stage.assign()
    async with stage.running():
        await until(stage.whole)
        stage.renew_target()
        stage.targets[0].foreign(3)
        stage.look()
        await until(lambda: stage.state() is State.FAILED)
    (event,) = stage.told(ForeignWriter)
    assert isinstance(event, ForeignWriter)
    assert (event.first, event.stopped) == (0, True)


async def test_while_brokers_do_not_agree_which_topic_it_is_nothing_is_decided() -> None:
    stage = Mended(renewal="append")
    stage.sources[0].data(5)
    asked = 0
    stage.assign()
    async with stage.running():
        await until(stage.whole)

        def disagree(what: str) -> None:
            nonlocal asked
            if what == "settled id" and asked < 3:
                asked += 1
                raise ConnectionLost("brokers do not agree")

        stage.a.before = disagree
        stage.renew_source()
        stage.sources[0].data(2)
        stage.look()
        await until(lambda: asked == 3)
        await until(lambda: stage.copied() == numbers(range(5), range(2)))
    assert stage.only(TopicRenewed).source_offset == 0


async def test_one_broker_of_the_past_makes_no_topic_anew() -> None:
    stage = Mended(renewal="append")
    stage.sources[0].data(5)
    stage.assign()
    async with stage.running():
        await until(stage.whole)
        await stage.settled()
        present = stage.a.leader[SOURCE]
        lies = 0

        def lie(what: str) -> None:
            nonlocal lies
            if what == "settled id":  # the others know better
                lies += 1
                stage.a.leader[SOURCE] = present

        stage.a.before = lie
        stage.a.leader[SOURCE] = Leader(1, 4, "id-of-the-past")
        stage.look()
        await until(lambda: lies)
        stage.sources[0].data(2)
        stage.a.grow()
        await until(stage.whole)
    assert stage.told(TopicRenewed) == stage.told(IdentityChanged) == []


async def test_another_cluster_stops_the_lane_whatever_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Mended(renewal="append")
    stage.sources[0].data(5)
    stage.assign()
    async with stage.running():
        await until(stage.whole)
    stage.renew_source()

    async def other() -> str:
        return "another"

    monkeypatch.setattr(stage.b, "cluster_id", other)
    stage.again()
    async with stage.running():
        await until(lambda: stage.state() is State.FAILED)
    assert len(stage.told(IdentityChanged)) == 1


async def test_what_the_target_lost_besides_stops_the_lane() -> None:
    stage = Mended(renewal="append")
    stage.sources[0].data(2)
    stage.sources[0].data(3)
    stage.assign()
    async with stage.running():
        await until(stage.whole)
        await until(lambda: stage.stored().source_next == 5)
    stage.targets[0].truncate(3)
    stage.renew_source()
    stage.again()
    async with stage.running():
        await until(lambda: stage.state() is State.FAILED)
    assert stage.told(TopicRenewed) == []
