"""The move of one group: what is stored when, and what stops it."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, Self, cast

import pytest

from engine.base.errors import ConnectionLost
from engine.flow.groups.group_commits import CommitRules, GroupCommits
from engine.flow.groups.translations import UNREAD_STINTS, Translations
from engine.flow.ports.ports import GroupListing
from engine.flow.topic_logs.unowned_log import UnownedLog
from engine.kafka.client.cluster import ClusterClient
from engine.services.dr import moving
from engine.services.dr.move_log import MoveLog
from engine.services.dr.moves.hook import HookFailed, MovePhase
from engine.services.dr.moving import GroupMover, MoveOutcome, MoveWish
from engine.services.dr.switchover.world import DrainedEnd
from engine.services.translate import GroupFailed
from engine.state.moves import Moves
from engine.state.state import (
    MOVE_SCOPE,
    MovedGroup,
    MovedOffset,
    MovedTopic,
    moved_key,
    moved_topic_key,
    state_topic,
)
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
        self.log_of_source = FakeCluster("a")
        self.log_of_source.source(*LANE).data(50)
        self.cluster.source(*COPY).data(150)
        self.cluster.target(state_topic("A"))
        self.maps.tell(LANE, [(0, 100, 50)], (50, 150))
        self.source.put("g", {LANE: 20})
        self.topics: dict[str, Any] = {"t": None}
        self.there: dict[str, Any] = {}
        self.hook = NotedHook()
        self.settings = ""

    def log(self) -> UnownedLog:
        return UnownedLog(self.cluster, FLOW, MOVE_SCOPE, 5.0)

    def mover(self, *, backwards: bool = False) -> GroupMover:
        config = mirror(self.settings)
        flow = config.flow(FLOW)
        mover: Any = GroupMover(config, flow, "g", who="me", backwards=backwards)
        mover._source, mover._target, mover._cluster = self.source, self.target, self.cluster
        mover._from = self.log_of_source
        mover._moves = MoveLog(self.cluster, cast("ClusterClient", None), flow)
        mover._translations = Translations(flow.selection, self.maps, self.cluster)
        rules = CommitRules(backwards=backwards)
        mover._commits = GroupCommits(FLOW, self.target, mover._translations, rules=rules)
        mover._hook = self.hook
        mover._clients = tuple(SimpleNamespace(metadata=self._metadata) for _ in range(2))
        made: GroupMover = mover
        return made

    async def _metadata(self, wanted: list[str] | None) -> Any:
        known = self.topics if wanted is None else self.there
        return SimpleNamespace(topics=known)

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


@pytest.mark.parametrize(("source_start", "names"), [(0, [MoveRefusalName.SKIPS]), (30, [])])
async def test_a_group_that_would_skip_records_there_is_refused(
    world: World, source_start: int, names: list[MoveRefusalName]
) -> None:
    world.cluster.sources[COPY].start = 130
    world.log_of_source.sources[LANE].start = source_start
    outcome = await world.move()
    assert [one.name for one in outcome.refused] == names
    assert (outcome.moved, bool(world.target.commits)) == (not names, not names)


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


async def test_a_move_that_is_repeated_and_broken_off_leaves_the_group_moved(world: World) -> None:
    assert (await world.move()).moved

    def lost(what: str) -> None:
        if what == "commit":
            raise ConnectionLost("b:1 is down")

    world.target.before = lost
    world.source.put("g", {LANE: 30})
    with pytest.raises(GroupFailed, match="b:1 is down"):
        await world.move()
    stored = await world.stored()
    assert stored is not None
    assert (stored.state, stored.offsets[0].target_offset) == ("moved", 120)


async def test_a_group_gets_a_start_where_producers_will_write(world: World) -> None:
    world.there = {"t": SimpleNamespace(partitions={0: None, 1: None})}
    for partition in range(2):
        world.cluster.source("t", partition).data(5)
    world.target.put("g", {TopicPartition("t", 1): 2})
    outcome = await world.move()
    assert (outcome.moved, outcome.starts) == (True, ("t",))
    assert world.target.stored["g"] == {COPY: (120, ""), LANE: (5, ""), TopicPartition("t", 1): (2, "")}


async def test_a_late_group_starts_where_moved_producers_began(world: World) -> None:
    world.there = {"t": SimpleNamespace(partitions={0: None})}
    world.cluster.source("t", 0).data(5)
    await world.log().put({moved_topic_key("t"): MovedTopic(at_ms=1, who="me", operation="1", ends=(50,), starts=(3,))})
    assert (await world.move()).moved
    assert world.target.stored["g"][LANE] == (3, "")


async def test_a_move_is_taken_back_while_nobody_consumed_there(world: World) -> None:
    assert [one.name for one in (await world.mover().undo()).refused] == [MoveRefusalName.NOT_MOVED]
    await world.move()
    outcome = await world.mover().undo()
    assert (outcome.undone, outcome.moved, outcome.refused) == (True, False, ())
    assert await world.stored() is None


async def test_a_group_that_consumed_there_stays(world: World) -> None:
    await world.move()
    world.target.put("g", {COPY: 121})
    assert [one.name for one in (await world.mover().undo()).refused] == [MoveRefusalName.CONSUMED]
    assert await world.stored() is not None
    world.source.put("g", {LANE: 21})  # its progress was brought back
    assert (await world.mover().undo()).undone


async def test_a_streams_application_moves_with_its_topics(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    store = "g-store-changelog"
    world.topics[store] = None
    world.settings = "replication.policy.class = IdentityReplicationPolicy\n"
    world.cluster.source(*LANE).data(150)
    streams = StreamsWorld()
    monkeypatch.setattr(moving, "DrainWorld", lambda _config, _flow: streams)
    (refusal,) = (await world.move()).refused
    assert (refusal.name, "5 offsets left" in refusal.why) == (MoveRefusalName.INTERNAL, True)
    streams.why = {}
    outcome = await world.move()
    assert (outcome.moved, outcome.internal_topics) == (True, (store,))
    assert any("delete STATE_DIR/g" in text for text in outcome.advice)
    moves = await world.mover()._moves.read()
    assert {name: one.ends for name, one in moves.topics.items()} == {store: (9,)}
    assert (await world.mover().undo()).undone
    assert await world.mover()._moves.read() == Moves()


class StreamsWorld:
    """Whether the topics of an application are copied whole."""

    def __init__(self) -> None:
        self.why = {"g-store-changelog-0": "5 offsets left"}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        pass

    def about(self, topics: Sequence[str]) -> Self:
        assert tuple(topics) == ("g-store-changelog",)
        return self

    async def undrained(self) -> tuple[dict[str, str], tuple[DrainedEnd, ...]]:
        return self.why, (DrainedEnd("g-store-changelog", 0, 9),)


async def test_topics_that_moved_are_stored_beside_groups(world: World) -> None:
    log = world.mover()._moves
    assert await log.read() == Moves()
    one = MovedTopic(at_ms=1, who="me", operation="1", ends=(50,))
    await log.put_topics({"t": one})
    await world.move()
    found = await log.read()
    assert (list(found.groups), dict(found.topics)) == (["g"], {"t": one})


async def test_share_and_streams_groups_are_refused_without_a_question_about_commits(world: World) -> None:
    for kind, name in (("share", MoveRefusalName.SHARE), ("streams", MoveRefusalName.STREAMS_GROUP)):
        world.source.listed["g"] = GroupListing("g", kind, kind)
        world.source.before = lambda what: pytest.fail(what) if what == "offsets" else None
        assert [one.name for one in (await world.move()).refused] == [name]


async def test_the_begin_of_the_map_is_said(world: World) -> None:
    world.maps.tell(LANE, [(30, 130, 20)], (50, 150), begins=(30, 130), first=False)
    outcome = await world.move()
    (refusal,) = outcome.refused
    assert (refusal.name, outcome.offsets[0].exact_from) == (MoveRefusalName.NOT_EXACT, 30)
    assert "raymirror's own map begins at offset 30 of the source, and the group is at 20" in refusal.why


class NotedHook:
    """The operator's command, as it was called; it fails in one phase."""

    def __init__(self, fails: MovePhase | None = None) -> None:
        self.calls: list[tuple[str, list[str], str]] = []
        self._fails = fails

    async def call(self, phase: MovePhase, topics: Sequence[str], *, group: str = "") -> None:
        self.calls.append((phase.value, list(topics), group))
        if phase is self._fails:
            raise HookFailed(phase.value, {"exit code 3": "no"})


async def test_the_command_of_moves_is_called_before_and_after(world: World) -> None:
    world.hook = NotedHook()
    await world.move(commits=False)
    assert world.hook.calls == []
    await world.move()
    await world.mover().undo()
    assert world.hook.calls == [("before", [], "g"), ("after", ["t"], "g"), ("undone", ["t"], "g")]


async def test_a_command_that_fails_leaves_the_move_to_be_repeated(world: World) -> None:
    world.hook = NotedHook(fails=MovePhase.AFTER)
    with pytest.raises(HookFailed, match=r"raymirror.move.command \(after\): exit code 3"):
        await world.move()
    stored = await world.stored()
    assert stored is not None
    assert stored.state == "moving"
    world.hook = NotedHook()
    assert (await world.move()).moved


async def test_a_translation_says_why_earlier_stints_do_not_answer(world: World) -> None:
    world.maps.tell(LANE, [(40, 140, 10)], (50, 150), begins=(40, 140), first=False)
    world.maps.without_stints = "b:1 is down"
    (row,) = (await world.mover().translate()).rows
    assert (row.target_offset, row.why_not) == (-1, f"{UNREAD_STINTS}: b:1 is down")
