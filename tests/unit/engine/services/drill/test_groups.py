"""Groups as a drill rehearses them: translated, committed under a shadow name, compared with their checkpoints."""

import asyncio

import pytest

from engine.base.clock import pause
from engine.core.offset_map.offset_map import CLAMPED
from engine.flow.groups.translations import Translations
from engine.flow.ports.ports import GroupListing
from engine.services.drill.groups import GroupRehearsal, RehearsedGroups
from policies.dr.drill import DrillFindingName, shadow_group
from policies.groups import GroupSelection, WrittenCheckpoint
from policies.model import TopicPartition
from tests.fakes.cluster import FakeCluster
from tests.fakes.groups import FakeGroups
from tests.fakes.maps import FakeMaps
from tests.unit.engine.config_files import flow

LANE, COPY = TopicPartition("t", 0), TopicPartition("A.t", 0)
Name = DrillFindingName


class World:
    """Two clusters with groups; records 0 to 49 of t are copied to 100 and up."""

    def __init__(self) -> None:
        self.source, self.target = FakeGroups("a"), FakeGroups("b")
        self.cluster, self.maps = FakeCluster("b"), FakeMaps()
        self.log = self.cluster.source(*COPY)
        self.log.data(150)
        self.maps.tell(LANE, [(0, 100, 50)], (50, 150))
        self.chosen = {"g", "h"}

    def rehearsal(self) -> GroupRehearsal:
        translations = Translations(flow().selection, self.maps, self.cluster)
        return GroupRehearsal(GroupSelection(), self.source, self.target, translations, self.chosen.__contains__)

    async def translated(self) -> RehearsedGroups:
        return await self.rehearsal().translate(5.0)

    async def names(self) -> list[Name]:
        return [one.name for one in (await self.translated()).findings]


@pytest.fixture
def world() -> World:
    return World()


async def test_a_group_is_translated_and_committed_under_its_shadow_name_only(world: World) -> None:
    world.source.put("g", {LANE: 20})
    world.source.put("other", {LANE: 20})
    found = await world.translated()
    assert found.findings == ()
    assert await world.rehearsal().commit("f00d", found.movable) == []
    assert world.target.stored == {shadow_group("f00d", "g"): {COPY: (120, "")}}


async def test_an_offset_that_is_not_copied_yet_is_waited_for(world: World) -> None:
    world.source.put("g", {LANE: 55})
    missing = await world.rehearsal().translate(0.0)
    assert [one.name for one in missing.findings] == [Name.NOT_TRANSLATED]
    assert missing.movable == {}
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(world.rehearsal().translate(5.0))
        await pause(1.0)
        assert not waiting.done()
        world.log.data(10)
        world.maps.tell(LANE, [(0, 100, 60)], (60, 160))
    assert waiting.result().findings == ()


async def test_a_group_that_is_ahead_or_active_on_the_target_would_not_be_moved(world: World) -> None:
    for group in ("g", "h"):
        world.source.put(group, {LANE: 20})
        world.target.put(group, {COPY: 121})
    world.target.members.add("h")
    found = await world.translated()
    assert [(one.name, one.subject) for one in found.findings] == [
        (Name.GROUP_AHEAD, "group g, A.t-0"),
        (Name.GROUP_ACTIVE, "group h"),
    ]
    assert set(found.movable) == {"g", "h"}, "its records can be compared all the same"


async def test_a_group_that_is_equal_or_behind_is_no_finding(world: World) -> None:
    world.source.put("g", {LANE: 20})
    world.source.put("h", {LANE: 20})
    world.target.put("g", {COPY: 120})
    world.target.put("h", {COPY: 119})
    assert await world.names() == []


async def test_what_cannot_be_read_is_a_finding_and_what_no_failover_moves_is_told(world: World) -> None:
    world.source.put("g", {LANE: 20})
    world.source.failing["g"] = "GroupAuthorizationFailed"
    world.source.listed["h"] = GroupListing("h", "consumer", "share")
    found = (await world.translated()).findings
    assert [(one.name, one.hurts) for one in found] == [(Name.GROUP_FAILED, True), (Name.NOT_JUDGED, False)]


async def test_a_commit_that_is_refused_is_a_finding(world: World) -> None:
    world.source.put("g", {LANE: 20})
    world.target.partitions = set()
    found = await world.translated()
    (finding,) = await world.rehearsal().commit("f00d", found.movable)
    assert finding.name is Name.GROUP_FAILED
    assert "A.t-0" in finding.why


# --- checkpoints -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("checkpoint", "wrong"),
    [((20, 120), False), ((10, 110), False), ((20, 121), True), ((20, 119), True), ((55, 155), False)],
)
async def test_a_checkpoint_is_held_against_the_exact_translation(
    world: World, checkpoint: tuple[int, int], wrong: bool
) -> None:
    world.source.put("g", {LANE: 20})
    found = await world.translated()
    written = {"g": {COPY: WrittenCheckpoint(*checkpoint)}, "other": {COPY: WrittenCheckpoint(1, 1)}}
    findings = await world.rehearsal().checkpoints(written, found.places, world.cluster)
    assert [one.name for one in findings] == [Name.CHECKPOINT] * wrong


async def test_a_checkpoint_in_front_of_markers_is_right(world: World) -> None:
    world.maps.tell(LANE, [(0, 100, 20), (20, 122, 28)], (48, 150))
    world.log.batches.clear()
    world.source.put("g", {LANE: 20})
    found = await world.translated()
    written = {"g": {COPY: WrittenCheckpoint(20, 120)}}
    assert await world.rehearsal().checkpoints(written, found.places, world.cluster) == []


async def test_a_copy_whose_beginning_is_gone_is_clamped_and_no_wrong_checkpoint(world: World) -> None:
    world.log.start = 130
    world.source.put("g", {LANE: 20})
    found = await world.translated()
    assert [row.how for row in found.places["g"]] == [CLAMPED]
    written = {"g": {COPY: WrittenCheckpoint(20, 120)}}
    assert await world.rehearsal().checkpoints(written, found.places, world.cluster) == []
