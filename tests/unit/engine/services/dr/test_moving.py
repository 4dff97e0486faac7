"""The move of one group: what is stored when, and what stops it."""

from types import SimpleNamespace
from typing import Any

import pytest

from engine.base.errors import ConnectionLost
from engine.flow.groups.group_commits import CommitRules, GroupCommits
from engine.flow.groups.translations import Translations
from engine.flow.topic_logs.unowned_log import UnownedLog
from engine.services.dr.moving import GroupMover, MoveOutcome, MoveWish
from engine.services.translate import GroupFailed
from engine.state.state import MOVE_SCOPE, MovedGroup, MovedOffset, moved_key, state_topic
from policies.dr.moving import MoveRefusalName
from policies.model import FlowName, TopicPartition
from tests.fakes.cluster import FakeCluster
from tests.fakes.groups import FakeGroups
from tests.fakes.maps import FakeMaps
from tests.unit.engine.config_files import mirror

FLOW = FlowName("A", "B")
LANE, COPY = TopicPartition("t", 0), TopicPartition("A.t", 0)


class World:
    """Two clusters; records 0 to 49 of t are copied to 100 and up, and group g has read 20 of them."""

    def __init__(self) -> None:
        self.source, self.target = FakeGroups("a"), FakeGroups("b")
        self.cluster, self.maps = FakeCluster("b"), FakeMaps()
        self.cluster.source(*COPY).data(150)
        self.cluster.target(state_topic("A"))
        self.maps.tell(LANE, [(0, 100, 50)], (50, 150))
        self.source.put("g", {LANE: 20})
        self.topics: dict[str, Any] = {"t": None}

    def log(self) -> UnownedLog:
        return UnownedLog(self.cluster, FLOW, MOVE_SCOPE, 5.0)

    def mover(self, *, backwards: bool = False) -> GroupMover:
        config = mirror()
        flow = config.flow(FLOW)
        mover: Any = GroupMover(config, flow, "g", who="me", backwards=backwards)
        mover._source, mover._target, mover._cluster, mover._moves = self.source, self.target, self.cluster, self.log()
        mover._translations = Translations(flow.selection, self.maps, self.cluster)
        rules = CommitRules(backwards=backwards)
        mover._commits = GroupCommits(FLOW, self.target, mover._translations, rules=rules)
        mover._clients = (SimpleNamespace(metadata=self._metadata), None)
        made: GroupMover = mover
        return made

    async def _metadata(self, _topics: object) -> Any:
        return SimpleNamespace(topics=self.topics)

    async def move(self, **wish: Any) -> MoveOutcome:
        return await self.mover().move(MoveWish(within_s=2.0, **wish))

    async def stored(self) -> MovedGroup | None:
        found = (await self.log().entries()).get(moved_key("g"))
        assert found is None or isinstance(found, MovedGroup)
        return found


@pytest.fixture
def world() -> World:
    return World()


async def test_a_group_is_committed_exactly_read_back_and_stored(world: World) -> None:
    outcome = await world.move()
    assert (outcome.moved, outcome.refused) == (True, ())
    assert world.target.stored["g"] == {COPY: (120, "")}
    stored = await world.stored()
    assert stored is not None
    assert (stored.state, stored.who, stored.offsets) == ("moved", "me", (MovedOffset("t", 0, 20, "A.t", 120),))


async def test_a_look_changes_nothing(world: World) -> None:
    outcome = await world.move(commits=False)
    assert (outcome.moved, outcome.refused) == (False, ())
    assert [(row.target_offset, row.stored) for row in outcome.offsets] == [(120, -1)]
    assert world.target.commits == []
    assert await world.stored() is None


async def test_what_may_not_move_is_not_touched(world: World) -> None:
    world.topics["g-store-changelog"] = None
    world.source.members.add("g")
    outcome = await world.move()
    assert [one.name for one in outcome.refused] == [MoveRefusalName.STREAMS, MoveRefusalName.SOURCE_MEMBERS]
    assert world.target.commits == []
    assert await world.stored() is None


async def test_commits_without_members_are_noticed(world: World) -> None:
    asked: list[str] = []

    def advance(what: str) -> None:
        asked.append(what)
        if what == "offsets":
            world.source.put("g", {LANE: 20 + len(asked)})

    world.source.before = advance
    outcome = await world.move()
    assert [one.name for one in outcome.refused] == [MoveRefusalName.COMMITS]


async def test_an_offset_that_is_not_copied_is_refused_after_a_while(world: World) -> None:
    world.source.put("g", {LANE: 60})
    outcome = await world.move()
    assert [one.name for one in outcome.refused] == [MoveRefusalName.NOT_EXACT]
    assert await world.stored() is None


async def test_a_group_that_is_further_there_moves_back_only_if_asked_to(world: World) -> None:
    world.target.put("g", {COPY: 130})
    assert [one.name for one in (await world.move()).refused] == [MoveRefusalName.AHEAD]
    outcome = await world.mover(backwards=True).move(MoveWish(within_s=2.0))
    assert outcome.moved
    assert world.target.stored["g"] == {COPY: (120, "")}


async def test_a_move_that_broke_off_is_stored_as_such_and_repeated(world: World) -> None:
    def lost(what: str) -> None:
        if what == "commit":
            raise ConnectionLost("b:1 is down")

    world.target.before = lost
    with pytest.raises(GroupFailed, match="b:1 is down"):
        await world.move()
    stored = await world.stored()
    assert stored is not None
    assert stored.state == "moving"
    world.target.before = lambda _what: None
    assert (await world.move()).moved
    (standing,) = await world.mover().moved()
    assert (standing.state, standing.source_moved, standing.partitions) == ("moved", 0, 1)


async def test_a_group_that_goes_on_on_the_source_is_seen(world: World) -> None:
    await world.move()
    world.source.put("g", {LANE: 21})
    world.source.members.add("g")
    (standing,) = await world.mover().moved()
    assert (standing.source_moved, standing.source_state, standing.target_state) == (1, "active", "inactive")
