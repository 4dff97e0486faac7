"""Rounds of a group keeper between two clusters in memory: what it finds, reports, and does not touch."""

from collections.abc import Sequence
from typing import Any

import pytest

from engine.base.errors import ConnectionLost
from engine.core.events.events import GroupClamped, GroupNotSynced, GroupRefused
from engine.core.events.recovery_events import WorksAgain
from engine.core.mm2.mm2_records import Checkpoint, encode_checkpoint
from engine.flow.groups.map_chain import ChainedMaps, KnownStints, LaneChain
from engine.flow.groups.translations import UNREAD_STINTS
from engine.flow.ports.ports import GroupListing, Stored
from engine.wire.codecs import NONE
from engine.wire.record import Record
from engine.wire.records import encode_batch
from policies.model import TopicPartition
from tests.fakes.group_pair import CHECKPOINTS, COPY, LANE, Pair
from tests.fakes.maps import FakeMaps


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch) -> Pair:
    made = Pair()
    made.hold_clock(monkeypatch)
    return made


async def test_a_round_tells_and_commits_what_moved(pair: Pair) -> None:
    pair.source.put("g", {LANE: 10})
    pair.source.stored["h"] = {LANE: (450, "here"), TopicPartition("t", 7): (1, "")}
    await pair.keeper.open()
    await pair.keeper.step()
    assert pair.told() == [("g", 10, 10), ("h", 450, 400)]
    assert pair.checkpoints()[1] == Checkpoint("h", "A.t", 0, 450, 400, "here")
    assert pair.target.stored["h"] == {COPY: (400, "here")}
    pair.source.put("g", {LANE: 600})
    await pair.keeper.step()
    assert pair.told()[2:] == [("g", 600, 500)]
    assert (pair.committed(), len(pair.target.commits)) == (500, 3)
    report = pair.keeper.report
    assert (report.groups, report.how, report.checkpoints, report.commits) == (2, {"end": 1, "refined": 1}, 3, 3)
    assert report.without == {"target partition not reachable": 1}


async def test_what_did_not_move_is_neither_told_nor_committed_again(pair: Pair) -> None:
    pair.source.put("g", {LANE: 10})
    await pair.keeper.open()
    for _ in range(3):
        await pair.keeper.step()
    assert (len(pair.told()), len(pair.target.commits)) == (1, 1)
    pair.source.put("g", {LANE: 450})
    await pair.keeper.step()
    pair.source.put("g", {LANE: 470})  # within the same hole: for a reader the same place
    await pair.keeper.step()
    assert (len(pair.told()), len(pair.target.commits)) == (2, 2)


async def test_offsets_without_an_answer_are_left_out(pair: Pair) -> None:
    pair.maps.tell(LANE, [(500, 400, 100)], ends=(600, 500), begins=(500, 400), first=False)
    pair.source.put("g", {LANE: 499})
    await pair.keeper.open()
    await pair.keeper.step()
    assert (pair.told(), pair.target.commits) == ([], [])
    assert pair.keeper.report.without == {"before": 1}


async def test_a_group_that_is_ahead_of_the_copy_is_placed_at_its_end_until_it_comes(pair: Pair) -> None:
    pair.source.put("g", {LANE: 601})
    await pair.keeper.open()
    for _ in range(2):
        await pair.keeper.step()
    assert (pair.told(), pair.committed()) == ([("g", 600, 500)], 500)
    assert pair.keeper.report.without == {"beyond": 1}, "which is not the place it has on the source"
    pair.maps.tell(LANE, [(0, 0, 400), (500, 400, 150)], ends=(650, 550))
    pair.source.put("g", {LANE: 651})
    await pair.keeper.step()
    assert (pair.told()[1:], pair.committed()) == ([("g", 650, 550)], 550)
    pair.source.put("g", {LANE: 601})
    await pair.keeper.step()
    assert (pair.told()[2:], pair.committed()) == ([("g", 601, 501)], 501), "it went back"


async def test_a_group_that_is_ahead_of_the_copy_is_never_set_back_by_it(pair: Pair) -> None:
    """It has read on the target, and its checkpoint there is of before."""
    pair.source.put("g", {LANE: 600})
    await pair.keeper.open()
    await pair.keeper.step()
    pair.target.put("g", {COPY: 520})
    pair.source.put("g", {LANE: 700})
    await pair.keeper.step()
    assert (pair.told(), pair.committed()) == ([("g", 600, 500)], 520)
    assert pair.keeper.report.ahead == 0, "on the source it may be further"
    pair.maps.tell(LANE, [(0, 0, 400), (500, 400, 110)], ends=(610, 510))
    await pair.keeper.step()
    assert (pair.told()[1:], pair.committed()) == ([("g", 610, 510)], 520)


async def test_the_metadata_of_an_offset_is_not_put_at_another_one(pair: Pair) -> None:
    """Some clients keep there which of the next records they have processed."""
    pair.source.stored["g"] = {LANE: (601, "of 601")}
    await pair.keeper.open()
    await pair.keeper.step()
    assert pair.checkpoints() == [Checkpoint("g", "A.t", 0, 600, 500, "")]
    assert pair.target.stored["g"] == {COPY: (500, "")}
    pair.maps.tell(LANE, [(0, 0, 400), (500, 400, 150)], ends=(650, 550))
    await pair.keeper.step()
    assert pair.checkpoints()[1:] == [Checkpoint("g", "A.t", 0, 601, 501, "of 601")]
    assert pair.target.stored["g"] == {COPY: (501, "of 601")}


@pytest.mark.parametrize("restarts", [False, True])
async def test_a_copy_that_began_again_further_back_takes_no_group_along(pair: Pair, restarts: bool) -> None:
    """What the group has not read lies before the end of the copy, and comes once more behind it."""
    pair.source.put("g", {LANE: 550})
    await pair.keeper.open()
    await pair.keeper.step()
    if restarts:
        pair.restart()
        await pair.keeper.open()
    pair.maps.tell(LANE, [(0, 600, 300)], ends=(300, 900), begins=(0, 600), first=False, generation=2)
    await pair.keeper.step()
    assert (pair.told(), pair.committed()) == ([("g", 550, 450)], 450)
    pair.maps.tell(LANE, [(0, 600, 400)], ends=(400, 1000), begins=(0, 600), first=False, generation=2)
    pair.source.put("g", {LANE: 350})
    await pair.keeper.step()
    assert (pair.told()[1:], pair.committed()) == ([("g", 350, 950)], 950)


async def test_an_end_of_the_copy_that_the_target_has_lost_is_no_place(pair: Pair) -> None:
    pair.maps.tell(LANE, [(0, 0, 1001)], ends=(1101, 1001))  # the copy does not know of the loss yet
    pair.source.put("g", {LANE: 1200})
    await pair.keeper.open()
    await pair.keeper.step()
    assert (pair.told(), pair.target.commits) == ([], [])


async def test_another_keeper_goes_on_from_the_checkpoints_and_follows_what_went_back_meanwhile(pair: Pair) -> None:
    pair.source.put("g", {LANE: 300})
    pair.source.put("h", {LANE: 20})
    await pair.keeper.open()
    await pair.keeper.step()
    pair.restart()
    pair.source.put("g", {LANE: 100})
    await pair.keeper.open()
    await pair.keeper.step()
    assert pair.told() == [("g", 300, 300), ("h", 20, 20), ("g", 100, 100)]
    assert (pair.committed("g"), pair.committed("h")) == (100, 20)


async def test_a_group_that_is_hidden_is_said_and_mirrored_again_once_it_is_shown(pair: Pair) -> None:
    pair.source.put("g", {LANE: 10})
    pair.source.put("h", {LANE: 10})
    await pair.keeper.open()
    await pair.keeper.step()
    pair.source.hidden.add("g")
    pair.source.put("g", {LANE: 20})
    pair.source.put("h", {LANE: 20})
    await look_again(pair)
    (event,) = [one for one in pair.keeper.take_events() if isinstance(one, GroupRefused)]
    assert (event.group, event.what) == ("g", "GroupAuthorizationFailed (30)")
    assert pair.told()[2:] == [("h", 20, 20)]
    assert pair.keeper.report.failed == {"g": "GroupAuthorizationFailed (30)"}
    pair.source.hidden.clear()
    await look_again(pair)
    assert pair.told()[3:] == [("g", 20, 20)]
    assert pair.keeper.report.failed == {}


async def test_a_group_that_is_gone_is_no_hidden_one(pair: Pair) -> None:
    pair.source.put("g", {LANE: 10})
    await pair.keeper.open()
    await pair.keeper.step()
    del pair.source.stored["g"]
    await look_again(pair)
    assert not [one for one in pair.keeper.take_events() if isinstance(one, GroupRefused)]
    assert pair.keeper.report.groups == 0


async def look_again(pair: Pair) -> None:
    """Make a round that lists the groups."""
    pair.keeper._looked_at_s = float("-inf")
    await pair.keeper.step()


async def test_what_lies_on_the_topic_beside_checkpoints_is_counted_and_passed_over(pair: Pair) -> None:
    key, value = encode_checkpoint(Checkpoint("g", "A.t", 0, 10, 10))
    records = [Record(0, 1, b"x", b"y"), Record(1, 1, key, None), Record(2, 1, key, value)]
    pair.cluster.targets[TopicPartition(CHECKPOINTS, 0)].append(bytes(encode_batch(records, NONE)))
    pair.source.put("g", {LANE: 10})
    log = pair.keeper._log
    await pair.keeper.open()
    assert (log.malformed, list(log.written)) == (2, ["g"])


async def test_a_clamped_offset_is_said_once(pair: Pair) -> None:
    pair.log.start = 40
    pair.source.put("g", {LANE: 10})
    await pair.keeper.open()
    for _ in range(2):
        await pair.keeper.step()
    assert (pair.told(), pair.committed()) == ([("g", 10, 40)], 40)
    (event,) = pair.events(GroupClamped)
    assert (event.group, event.partitions) == ("g", 1)


async def test_groups_that_are_not_consumers_are_listed_and_left(pair: Pair) -> None:
    pair.source.listed["s"] = GroupListing("s", "share", "share")
    pair.source.listed["st"] = GroupListing("st", "streams", "streams")
    pair.source.listed["console-consumer-1"] = GroupListing("console-consumer-1", "consumer", "classic")
    pair.source.put("g", {LANE: 10})
    await pair.keeper.open()
    for _ in range(2):
        await pair.keeper.step()
    assert pair.keeper.report.not_synced == {"s": "share group", "st": "streams group"}
    assert {event.group for event in pair.events(GroupNotSynced)} == {"s", "st"}
    assert pair.keeper.report.groups == 1


async def test_a_group_that_is_removed_is_forgotten(pair: Pair) -> None:
    pair.source.put("g", {LANE: 300})
    await pair.keeper.open()
    await pair.keeper.step()
    del pair.source.stored["g"]
    await pair.keeper.step()
    assert (pair.keeper.report.groups, pair.committed()) == (0, 300)
    pair.source.put("g", {LANE: 100})  # another group of that name: nothing says that it went back
    await pair.keeper.step()
    assert pair.committed() == 300


@pytest.mark.parametrize(("checkpoints", "commits"), [(True, False), (False, True)])
async def test_either_may_be_switched_off(checkpoints: bool, commits: bool) -> None:
    pair = Pair(checkpoints=checkpoints, commits=commits)
    pair.source.put("g", {LANE: 10})
    await pair.keeper.open()
    await pair.keeper.step()
    assert (bool(pair.told()), bool(pair.target.commits)) == (checkpoints, commits)
    assert not pair.keeper.idle


async def test_with_both_switched_off_nothing_is_asked() -> None:
    pair = Pair(checkpoints=False, commits=False)
    await pair.keeper.run()
    assert pair.keeper.idle


async def test_new_groups_are_not_looked_for_where_that_is_switched_off() -> None:
    pair = Pair(refresh=False)
    pair.source.put("g", {LANE: 10})
    await pair.keeper.open()
    await pair.keeper.step()
    assert pair.keeper.report.groups == 1  # those of the start
    pair.source.put("h", {LANE: 10})
    await pair.keeper.step()
    assert pair.keeper.report.groups == 1


async def test_many_groups_in_one_round(pair: Pair) -> None:
    wanted: dict[str, Sequence[Stored]] = {}
    for number in range(700):
        pair.source.put(f"g{number}", {LANE: number % 400})
        wanted[f"g{number}"] = [(number % 400, "")]
    await pair.keeper.open()
    await pair.keeper.step()
    assert {group: list(offsets.values()) for group, offsets in pair.target.stored.items()} == wanted
    assert len(pair.told()) == 700


async def test_no_map_is_read_while_there_is_no_group(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    places = pair.keeper._translations.places

    async def counted(commits: Any) -> Any:
        asked.append(len(commits))
        return await places(commits)

    monkeypatch.setattr(pair.keeper._translations, "places", counted)
    await pair.keeper.open()
    await pair.keeper.step()
    assert not asked
    assert (pair.keeper.report.groups, pair.keeper.report.trouble) == (0, "")
    assert pair.keeper.report.at_ms > 0
    pair.source.put("g", {LANE: 10})
    await pair.keeper.step()
    assert asked == [1]
    assert pair.told() == [("g", 10, 10)]


async def test_a_group_that_has_read_nothing_since_the_flow_was_turned_is_mirrored(pair: Pair) -> None:
    """The present stint began at offset 100 of the source; what lies before that came from the target."""
    own, closed = FakeMaps(), FakeMaps()
    own.tell(LANE, [(100, 120, 50)], ends=(150, 170), begins=(100, 120), first=False)
    closed.tell(COPY, [(0, 10, 90)], ends=(120, 100))
    pair.source.put("idle", {LANE: 30})
    for chains in ({}, {LANE: LaneChain(back=COPY, starts=(100,))}):
        pair.chained = ChainedMaps(own, KnownStints(closed, chains))
        keeper = pair.restart()
        await keeper.open()
        await keeper.step()
        if not chains:
            assert (pair.told(), keeper.report.without) == ([], {"before": 1})
    assert pair.told() == [("idle", 30, 20)]
    assert (pair.committed("idle"), keeper.report.how) == (20, {"run": 1})


async def test_earlier_stints_that_cannot_be_read_are_said_once_and_only_if_a_group_needs_them(pair: Pair) -> None:
    pair.maps.tell(LANE, [(100, 120, 50)], ends=(150, 170), begins=(100, 120), first=False)
    pair.maps.without_stints = "a:1 is down"
    pair.source.put("busy", {LANE: 120})
    await pair.keeper.open()
    await pair.keeper.step()
    assert pair.events(GroupRefused) == []
    pair.source.put("idle", {LANE: 30})
    for _ in range(3):
        await look_again(pair)
    assert [one.what for one in pair.events(GroupRefused)] == ["not mirrored; raymirror retries: a:1 is down"]
    assert pair.keeper.report.without == {UNREAD_STINTS: 1}, "a code: metrics have it as a label"
    pair.maps.without_stints = ""
    for _ in range(2):
        await look_again(pair)
    assert len(pair.events(WorksAgain)) == 1


class FakeMoved:
    """What a test says has moved."""

    def __init__(self) -> None:
        self.groups: frozenset[str] = frozenset()
        self.fails = False

    async def read(self) -> frozenset[str]:
        if self.fails:
            raise ConnectionLost("the leader is cut off")
        return self.groups


@pytest.mark.parametrize("refresh", [True, False])
@pytest.mark.parametrize("silent", [True, False])
async def test_a_moved_group_that_is_set_back_on_the_target_stays_there(
    pair: Pair, *, refresh: bool, silent: bool
) -> None:
    pair.options["refresh"] = refresh
    moved = pair.restart().moved = FakeMoved()
    pair.source.put("g", {LANE: 300})
    pair.source.put("h", {LANE: 200})
    pair.source.put("other", {LANE: 200})
    await pair.keeper.open()
    await pair.keeper.turn()
    assert (pair.committed(), pair.committed("h")) == (300, 200)
    if silent:
        pair.source.away.add("other")  # a broker that lists nothing
    moved.groups = frozenset({"g"})
    for group in ("g", "h"):
        pair.target.stored[group] = {COPY: (50, "")}
    await pair.keeper.turn()
    assert (pair.committed(), pair.committed("h")) == (50, 200)
    pair.source.put("g", {LANE: 350})
    await pair.keeper.turn()
    assert pair.committed() == 50
    assert pair.told()[-1] == ("g", 350, 350), "checkpoints go on"
    assert pair.keeper.report.ahead == 0
    moved.groups = frozenset()
    await pair.keeper.turn()
    assert pair.committed() == 350, "it was moved back: the mirror keeps it in step again"


async def test_what_a_moved_group_left_on_the_target_is_kept_from_expiring(pair: Pair) -> None:
    pair.target.retention = 1000.0
    moved = pair.keeper.moved = FakeMoved()
    pair.source.put("g", {LANE: 300})
    await pair.keeper.open()
    await pair.keeper.turn()
    moved.groups = frozenset({"g"})
    made = pair.keeper.report.commits
    pair.now_s += 100.0
    await pair.keeper.turn()
    assert pair.keeper.report.commits == made
    pair.now_s += 400.0
    await pair.keeper.turn()
    assert (pair.keeper.report.commits, pair.committed()) == (made + 1, 300)


async def test_nothing_is_committed_while_nobody_knows_what_has_moved(pair: Pair) -> None:
    moved = pair.keeper.moved = FakeMoved()
    moved.fails = True
    pair.source.put("g", {LANE: 300})
    await pair.keeper.open()
    await pair.keeper.turn()
    assert (pair.committed(), pair.told()) == (None, [("g", 300, 300)])
    assert "which groups have moved is not known: connection lost: the leader is cut off" in pair.keeper.report.trouble
    moved.fails = False
    await pair.keeper.turn()
    assert (pair.committed(), pair.keeper.report.trouble) == (300, "")


async def test_where_the_mirror_commits_nothing_nobody_asks_what_has_moved(pair: Pair) -> None:
    pair.options["commits"] = False
    moved = pair.restart().moved = FakeMoved()
    moved.fails = True
    pair.source.put("g", {LANE: 300})
    await pair.keeper.open()
    await pair.keeper.turn()
    assert (pair.told(), pair.keeper.report.trouble) == ([("g", 300, 300)], "")
