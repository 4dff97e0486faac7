"""Progress on the target as offsets of the source: exact if the map knows, backwards only on request."""

from engine.core.offset_map.map_runs import MapBlock, MapHead, MapRun, MapStart
from engine.core.offset_map.offset_map import OffsetMap, Translation
from engine.flow.groups.failback import BEHIND_COPY, Failback, FailbackRow, with_commits
from engine.flow.groups.translations import UNREAD_STINTS
from policies.groups import GroupSelection
from policies.model import TopicPartition
from tests.fakes.groups import FakeGroups
from tests.fakes.maps import FakeMaps

LANE, COPY = TopicPartition("t", 0), TopicPartition("A.t", 0)
ELSE = TopicPartition("local", 0)


class Maps(FakeMaps):
    """Maps that answer the other way round too."""

    def source_of(self, lane: TopicPartition, target_offset: int) -> Translation:
        return self.maps.get(lane, OffsetMap()).source_of(target_offset)


class World:
    """Source records 10 to 19 and 30 to 39 lie on the target at 0 to 9 and 11 to 20."""

    def __init__(self) -> None:
        self.source, self.target, self.maps = FakeGroups("a"), FakeGroups("b"), Maps()
        self.maps.tell(LANE, [(10, 0, 10), (30, 11, 10)], (42, 21), begins=(0, 0))

    def way(self, *, backwards: bool = False) -> Failback:
        selection = GroupSelection((".*",), ())
        return Failback(selection, {COPY: LANE}, self.maps, self.source, self.target, backwards=backwards)

    async def row(self, offset: int, *, backwards: bool = False) -> FailbackRow:
        self.target.put("g", {COPY: offset, ELSE: 5})
        rows, failed = await self.way(backwards=backwards).read()
        assert failed == {}
        (row,) = rows
        return row


async def test_inside_a_run_at_a_hole_at_the_end_and_behind_it() -> None:
    world = World()
    found = [await world.row(offset) for offset in (3, 10, 21, 22)]
    assert [(row.source_offset, row.how) for row in found] == [
        (13, "run"),
        (30, "refined"),
        (42, "end"),
        (42, BEHIND_COPY),
    ]
    assert {(row.commits, row.why) for row in found} == {(True, "nothing is committed on the source")}


async def test_what_is_committed_on_the_source_decides() -> None:
    world = World()
    verdicts = []
    for stored in (11, 13, 14):
        world.source.put("g", {LANE: stored})
        row = await world.row(3)
        verdicts.append((row.commits, row.settled, row.why))
    assert verdicts == [
        (True, False, "the group moved on"),
        (False, True, "equal"),
        (False, False, "the source's offset is ahead"),
    ]
    row = await world.row(3, backwards=True)
    assert (row.commits, row.why) == (True, "asked to go back")


async def test_a_lane_of_which_nothing_is_known_has_no_answer() -> None:
    world = World()
    world.maps.waiting.clear()
    row = await world.row(3)
    assert (row.source_offset, row.commits, row.settled, row.why) == (-1, False, False, "stale")


async def test_a_block_that_is_not_in_memory_is_read_back() -> None:
    world = World()
    made = OffsetMap()
    block = MapBlock(0, 1, (MapRun(10, 0, 10),))
    made.add_block(block, 0)
    made.follow(MapHead(1, 1, 42, 21, (MapRun(30, 11, 10),)), MapStart(0, 0, first=True))
    made.thin(0)
    world.maps.waiting, world.maps.blocks = {LANE: made}, {LANE: [block]}
    row = await world.row(3)
    assert (row.source_offset, world.maps.recalled) == (13, [(LANE, [0])])


async def test_it_commits_for_groups_without_members_only() -> None:
    world = World()
    for group in ("busy", "free"):
        world.target.put(group, {COPY: 3})
    world.source.members.add("busy")
    rows, _ = await world.way().read()
    assert {row.group: row.why for row in rows}["busy"] == "the group has members on the source"
    committed, failed = await world.way().apply(rows)
    assert failed == {}
    assert world.source.commits == [("free", {LANE: (13, "")})]
    later, _ = await world.way().read()
    rows = with_commits(later, committed)
    assert {row.group: row.settled for row in rows} == {"busy": False, "free": True}
    assert {row.group: (row.before, row.committed) for row in rows} == {"busy": (-1, -1), "free": (-1, 13)}


async def test_what_was_committed_is_told_with_what_was_there_before() -> None:
    world = World()
    world.source.put("g", {LANE: 11})
    world.target.put("g", {COPY: 3})
    rows, _ = await world.way().read()
    committed, _ = await world.way().apply(rows)
    later, _ = await world.way().read()
    for seen in (later, []):  # a later look may not find the group
        (row,) = with_commits(seen, committed)
        assert (row.before, row.committed, row.source_offset) == (11, 13, 13)


async def test_what_the_source_refuses_is_said() -> None:
    world = World()
    world.source.partitions = set()
    for group in ("late", "other"):
        world.target.put(group, {COPY: 3})
    rows, _ = await world.way().read()
    world.source.members.add("late")
    committed, failed = await world.way().apply(rows)
    assert committed == []
    assert failed["late"] == "the group has members on the source"
    assert "UnknownTopicOrPartition" in failed["other"]


async def test_groups_that_cannot_be_asked_about_are_said() -> None:
    world = World()
    world.target.put("g", {COPY: 3})
    world.source.failing["g"] = "GroupAuthorizationFailed (30)"
    assert await world.way().read() == ([], {"g": "GroupAuthorizationFailed (30)"})


async def test_an_offset_before_the_map_says_why_earlier_stints_do_not_answer() -> None:
    world = World()
    world.maps.tell(LANE, [(30, 11, 10)], (42, 21), begins=(30, 11), first=False)
    assert (await world.row(3)).why == "before"
    world.maps.without_stints = "b:1 is down"
    row = await world.row(3)
    assert (row.source_offset, row.commits, row.why) == (-1, False, f"{UNREAD_STINTS}: b:1 is down")
