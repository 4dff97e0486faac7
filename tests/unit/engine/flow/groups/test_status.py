"""Groups on both sides: equal, or why not; with a source that answers, and with one that does not."""

from collections.abc import Mapping, Sequence

import msgspec
import pytest

from engine.base.errors import ConnectionLost, KafkaRefusal
from engine.core.mm2.mm2_records import Checkpoint, encode_checkpoint
from engine.flow.groups.status import (
    BEFORE_MAP,
    EXPIRED,
    LAST_CHECKPOINT,
    NOT_COMMITTED,
    READ_ON,
    GroupStatus,
    GroupStatusReader,
    stand_by_checkpoints,
)
from engine.flow.groups.translations import UNREAD_STINTS, TranslatedOffset, Translations
from engine.flow.ports.ports import GroupListing
from engine.flow.topic_logs.checkpoints import CheckpointLog
from engine.wire.record import Record
from engine.wire.records import encode_batch
from policies.groups import GroupSelection, Why
from policies.model import TopicPartition
from tests.fakes.cluster import FakeCluster
from tests.fakes.groups import FakeGroups
from tests.fakes.maps import FakeMaps
from tests.unit.engine.config_files import flow

LANE, COPY = TopicPartition("t", 0), TopicPartition("A.t", 0)
CHECKPOINTS = "A.checkpoints.internal"
SELECTION = GroupSelection((".*",), ("left-out",))


class World:
    """Two clusters with groups; records 0 to 49 of t are copied to 100 and up."""

    def __init__(self) -> None:
        self.source, self.target = FakeGroups("a"), FakeGroups("b")
        self.cluster, self.maps = FakeCluster("b"), FakeMaps()
        self.log = FakeCluster("a")
        self.log.source(*LANE).data(50)
        self.cluster.target("A.t").end = 150
        self.maps.tell(LANE, [(0, 100, 50)], (50, 150))
        self.translations = Translations(flow().selection, self.maps, self.cluster)

    async def commit(self, places: Mapping[str, Sequence[TranslatedOffset]]) -> dict[str, str]:
        """Commit as a GroupSyncLoop would; groups with members are left."""
        for group, rows in places.items():
            if group not in self.target.members:
                self.target.put(group, {place.target: place.offset for place in rows if place.offset >= 0})
        return {}

    async def look(self, *, commit: bool = True) -> GroupStatus:
        stands = GroupStatusReader(
            SELECTION, self.log, self.source, self.target, self.translations, self.commit if commit else None
        )
        return await stands.read()


@pytest.fixture
def world() -> World:
    return World()


async def test_a_group_that_is_committed_exactly_is_equal(world: World) -> None:
    world.source.put("g", {LANE: 20})
    standing = await world.look()
    assert standing.equal
    assert (standing.groups, standing.stands[0].target_offset, standing.stands[0].stored) == (1, 120, 120)


async def test_without_a_commit_it_only_looks(world: World) -> None:
    world.source.put("g", {LANE: 20})
    standing = await world.look(commit=False)
    assert (standing.equal, standing.stands[0].why, world.target.stored) == (False, "not committed on the target", {})


async def test_every_reason_not_to_be_equal(world: World) -> None:
    for group, offset in (("ahead", 20), ("beyond", 51), ("busy", 20), ("left-out", 1)):
        world.source.put(group, {LANE: offset})
    world.source.listed["shared"] = GroupListing("shared", "share", "share")
    world.target.put("ahead", {COPY: 130})
    world.target.members.add("busy")
    standing = await world.look(commit=False)
    assert {stand.group: stand.why for stand in standing.unequal} == {
        "ahead": "the target's offset is ahead",
        "beyond": "no target offset: beyond",
        "busy": "the group has members on the target",
    }
    assert standing.not_synced == {"shared": "share group"}


async def test_a_group_that_reads_on_while_it_is_compared_is_not_called_ahead(world: World) -> None:
    """The mirror's own loop commits a newer offset between the two reads."""
    world.source.put("g", {LANE: 20})
    world.target.put("g", {COPY: 120})
    asked = list[str]()

    def reads_on(what: str) -> None:
        asked.append(what)
        if asked == ["offsets", "states"]:
            world.source.put("g", {LANE: 30})
            world.target.put("g", {COPY: 130})

    world.target.before = reads_on
    standing = await world.look(commit=False)
    assert [(one.stored, one.why, one.is_for_good) for one in standing.stands] == [(130, READ_ON, False)]
    assert standing.waited_for(()).keys() == {"g"}
    assert (await world.look(commit=False)).equal


async def test_a_group_before_the_map_is_said_to_be_there(world: World) -> None:
    """As after a switchover: the flow back begins at the ends, and a group that reads nothing stays before them."""
    world.maps.tell(LANE, [(40, 140, 10)], (50, 150), begins=(40, 140), first=False)
    world.source.put("idle", {LANE: 20})
    standing = await world.look()
    assert [one.why for one in standing.unequal] == [BEFORE_MAP]
    world.maps.without_stints = "b:1 is down"
    standing = await world.look()
    assert [one.why for one in standing.unequal] == [f"no target offset: {UNREAD_STINTS}: b:1 is down"]


async def test_groups_that_cannot_be_asked_about_are_not_equal(world: World) -> None:
    world.source.put("open", {LANE: 20})
    world.source.unstable.add("open")
    world.source.put("denied", {LANE: 20})
    world.target.failing["denied"] = "GroupAuthorizationFailed (30)"
    standing = await world.look()
    assert not standing.equal
    assert standing.failed.keys() == {"open", "denied"}
    assert standing.stands == ()


@pytest.mark.parametrize(
    ("at", "source_start", "why"),
    [
        (20, 0, EXPIRED),  # the source has records 20 to 29, and the target has not
        (20, 25, EXPIRED),  # still 25 to 29
        (20, 30, ""),  # the source has deleted the same
        (30, 0, ""),
    ],
)
async def test_a_group_that_would_skip_records_which_the_target_has_deleted_is_not_equal(
    world: World, at: int, source_start: int, why: str
) -> None:
    world.cluster.targets[COPY].start = 130
    world.log.sources[LANE].start = source_start
    world.source.put("g", {LANE: at})
    standing = await world.look()
    (stand,) = standing.stands
    assert (stand.stored, stand.why, standing.equal) == (130, why, not why)
    world.target.stored.clear()
    (stand,) = (await world.look(commit=False)).stands
    assert stand.why == (why or NOT_COMMITTED), "a check says so before anything is committed"


async def test_a_group_that_has_read_all_is_equal_although_the_target_has_deleted_all(world: World) -> None:
    world.cluster.targets[COPY].end = world.cluster.targets[COPY].start = 152  # behind it there were only markers
    world.source.put("g", {LANE: 50})
    assert (await world.look()).equal


# --- a source that does not answer ---------------------------------------------------------------------------


def told(world: World, *checkpoints: tuple[str, int, int]) -> CheckpointLog:
    log = world.cluster.target(CHECKPOINTS)
    for group, source, target in checkpoints:
        key, value = encode_checkpoint(Checkpoint(group, COPY.topic, COPY.partition, source, target, "m"))
        log.append(bytes(encode_batch([Record(0, source, key, value)], 0)))
    return CheckpointLog(world.cluster, CHECKPOINTS, 1.0)


async def test_the_last_checkpoints_are_committed_and_nobody_says_equal(world: World) -> None:
    log = told(world, ("g", 10, 110), ("g", 20, 120), ("left-out", 1, 101))
    standing = await stand_by_checkpoints(SELECTION, log, world.cluster, world.target, commit=True)
    assert world.target.commits == [("g", {COPY: (120, "m")})]
    (stand,) = standing.stands
    assert (stand.stored, stand.target_offset, stand.why) == (120, 120, LAST_CHECKPOINT)
    assert stand.as_of_ms == 20, "when its last checkpoint was told"
    assert not standing.equal
    await stand_by_checkpoints(SELECTION, log, world.cluster, world.target, commit=True)
    assert len(world.target.commits) == 1, "nothing is left to commit"


async def test_a_checkpoint_never_takes_a_group_back(world: World) -> None:
    log = told(world, ("g", 20, 120))
    world.target.put("g", {COPY: 140})
    standing = await stand_by_checkpoints(SELECTION, log, world.cluster, world.target, commit=True)
    assert (world.target.commits, standing.stands[0].why) == ([], "the target's offset is ahead")


async def test_no_checkpoint_is_committed_above_what_the_target_has(world: World) -> None:
    log = told(world, ("new", 48, 148), ("ours", 48, 148), ("own", 48, 148))
    world.target.put("ours", {COPY: 148})
    world.target.put("own", {COPY: 160})
    copy = world.cluster.targets[COPY]
    copy.end = 130  # an unclean election took the rest; what is written next lies where it was
    standing = await stand_by_checkpoints(SELECTION, log, world.cluster, world.target, commit=True)
    assert {group: one[COPY][0] for group, one in world.target.stored.items()} == {"new": 130, "ours": 130, "own": 160}
    whys = {stand.group: stand.why for stand in standing.stands}
    assert whys["new"] == f"{LAST_CHECKPOINT}; the checkpoint says 148, but the target's log is now from 0 to 130"
    assert whys["own"] == "the target's offset is ahead"


async def test_a_checkpoint_that_retention_has_passed_is_moved_to_what_is_left(world: World) -> None:
    log = told(world, ("late", 5, 105))
    world.cluster.targets[COPY].start = 120
    standing = await stand_by_checkpoints(SELECTION, log, world.cluster, world.target, commit=True)
    assert world.target.stored["late"][COPY][0] == 120
    assert "the target's log is now from 120 to 150" in standing.stands[0].why


async def test_a_checkpoint_of_a_copy_that_nobody_tells_of_is_committed_as_it_is(world: World) -> None:
    log = told(world, ("g", 20, 120))

    def away(asked: str, partitions: object) -> None:
        if asked == "offsets" and COPY in list(partitions):  # type: ignore[call-overload]
            raise ConnectionLost("no leader")

    world.cluster.fail = away
    await stand_by_checkpoints(SELECTION, log, world.cluster, world.target, commit=True)
    assert world.target.stored["g"][COPY][0] == 120


async def test_groups_with_members_and_without_a_commit_are_left(world: World) -> None:
    log = told(world, ("g", 20, 120), ("busy", 20, 120))
    world.target.members.add("busy")
    standing = await stand_by_checkpoints(SELECTION, log, world.cluster, world.target, commit=False)
    assert world.target.commits == []
    assert [stand.why for stand in standing.stands] == [
        "not committed on the target",
        "the group has members on the target",
    ]


async def test_a_member_that_comes_meanwhile_and_a_refusal_are_said(world: World) -> None:
    log = told(world, ("g", 20, 120), ("denied", 20, 120), ("gone", 20, 120))
    world.target.partitions = set()

    def before(asked: str) -> None:
        if asked == "commit":
            if len(steps) == 0:
                world.target.members.add("g")
            elif len(steps) == 1:
                steps.append(asked)
                raise KafkaRefusal("group denied", 30, "GroupAuthorizationFailed", "grant Read")
            steps.append(asked)

    steps: list[str] = []
    world.target.before = before
    standing = await stand_by_checkpoints(SELECTION, log, world.cluster, world.target, commit=True)
    assert standing.failed["g"] == "the group has members on the target"
    assert "GroupAuthorizationFailed" in standing.failed["denied"]
    assert "UnknownTopicOrPartition" in standing.failed["gone"]


# --- partitions that are not drained, and groups that nobody told ---------------------------------------------


async def test_nothing_is_equal_in_a_partition_that_is_not_drained(world: World) -> None:
    world.source.put("g", {LANE: 20})
    standing = await world.look()
    assert standing.held_against({}).equal
    held = standing.held_against({LANE: "t-0 has no leader"})
    assert [stand.why for stand in held.unequal] == ["its partition is not drained: t-0 has no leader"]
    assert standing.held_against({TopicPartition("t", 1): "it"}).equal


async def test_what_no_waiting_brings_is_not_waited_for(world: World) -> None:
    world.source.put("beyond", {LANE: 51})
    standing = await world.look()
    (beyond,) = standing.unequal
    assert standing.waited_for({}) == {"beyond": f"t-0: {beyond.why}"}
    assert standing.waited_for({LANE: "5 records left"}) == {}
    silent = msgspec.structs.replace(standing, missing={"broker 1": "refused"}, failed={"h": "no coordinator"})
    assert silent.waited_for({LANE: ""}) == {"broker 1": "refused", "h": "no coordinator"}
    assert not msgspec.structs.replace(standing, stands=(), missing={"broker 1": "refused"}).equal


@pytest.mark.parametrize("why", [BEFORE_MAP, EXPIRED, Why.TARGET_AHEAD.value])
async def test_what_is_unequal_for_good_is_not_waited_for_and_other_groups_are(world: World, why: str) -> None:
    world.source.put("beyond", {LANE: 51})
    world.source.put("lost", {LANE: 20})
    standing = await world.look()
    stands = tuple(msgspec.structs.replace(one, why=why) if one.group == "lost" else one for one in standing.stands)
    standing = msgspec.structs.replace(standing, stands=stands)
    assert standing.waited_for({}).keys() == {"beyond"}


async def test_groups_that_the_source_does_not_tell_stand_by_their_checkpoints(world: World) -> None:
    log = told(world, ("g", 10, 110), ("hidden", 20, 120))
    world.source.put("g", {LANE: 20})
    standing = await world.look()
    others = await stand_by_checkpoints(
        SELECTION, log, world.cluster, world.target, commit=True, of=lambda group: group == "hidden"
    )
    whole = standing.completed(others)
    assert {stand.group: stand.why for stand in whole.stands} == {"g": "", "hidden": LAST_CHECKPOINT}
    assert whole.groups == 2
    assert whole.completed(others).groups == 2
