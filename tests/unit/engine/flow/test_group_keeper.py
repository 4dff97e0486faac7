"""Rounds of a group keeper between two clusters in memory: what is told, what is committed, what is left alone."""

from collections.abc import Sequence
from typing import Any

import pytest

from engine.core.events import GroupClamped, GroupNotSynced, GroupRefused, GroupWentBack
from engine.core.mm2_records import Checkpoint, decode_checkpoint, encode_checkpoint
from engine.errors import ConnectionLost, KafkaRefusal
from engine.flow import group_keeper
from engine.flow.checkpoints import CheckpointLog
from engine.flow.group_keeper import GroupRounds, GroupTerms
from engine.flow.ports import GroupListing, Stored
from engine.flow.translations import Translations
from engine.wire.codecs import NONE
from engine.wire.record import Record
from engine.wire.records import encode_batch
from policies.groups import GroupSelection
from policies.model import FlowName, TopicPartition
from policies.naming import DefaultNaming
from policies.selection import TopicSelection
from tests.fakes.cluster import FakeCluster
from tests.fakes.groups import FakeGroups
from tests.fakes.maps import FakeMaps

FLOW = FlowName("A", "B")
LANE, COPY = TopicPartition("t", 0), TopicPartition("A.t", 0)
CHECKPOINTS = "A.checkpoints.internal"


class Pair:
    """Source groups, target groups, maps and the target's logs; a keeper over them that may be made anew."""

    def __init__(self, **terms: Any) -> None:
        self.source, self.target = FakeGroups("A"), FakeGroups("B")
        self.maps, self.cluster = FakeMaps(), FakeCluster("B")
        self.log = self.cluster.source(*COPY)
        self.log.data(1000)
        self.cluster.target(CHECKPOINTS)
        self.terms = terms
        self.ours = True
        self.now_s = 1000.0
        self.keeper = self.restart()
        self.maps.tell(LANE, [(0, 0, 400), (500, 400, 100)], ends=(600, 500))

    def restart(self) -> GroupRounds:
        """Make another keeper of the same flow, which has read nothing yet."""
        fast = {"refresh_s": 0.0, "commits": True, "commits_s": 0.0}
        terms = GroupTerms(flow=FLOW, selection=GroupSelection(), **{**fast, **self.terms})
        translations = Translations(TopicSelection(FLOW, DefaultNaming()), self.maps, self.cluster)
        checkpoints = CheckpointLog(self.cluster, CHECKPOINTS, 5.0)
        self.keeper = GroupRounds(terms, self.source, self.target, translations, checkpoints, lambda: self.ours)
        return self.keeper

    def checkpoints(self) -> list[Checkpoint]:
        """Return all that lies on the checkpoints topic."""
        records = self.cluster.targets[TopicPartition(CHECKPOINTS, 0)].records()
        return [decode_checkpoint(one.key, one.value) for one in records]

    def told(self) -> list[tuple[str, int, int]]:
        """Return (group, source, target) of each."""
        return [(one.group, one.source_offset, one.target_offset) for one in self.checkpoints()]

    def committed(self, group: str = "g") -> int | None:
        """Return what is stored for a group on the target."""
        found = self.target.stored.get(group, {}).get(COPY)
        return None if found is None else found[0]

    def events(self, kind: type) -> list[Any]:
        """Take the events of one kind."""
        return [event for event in self.keeper.take_events() if isinstance(event, kind)]


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch) -> Pair:
    made = Pair()
    monkeypatch.setattr(group_keeper, "now_s", lambda: made.now_s)
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
    pair.source.put("g", {LANE: 601})
    await pair.keeper.open()
    await pair.keeper.step()
    assert (pair.told(), pair.target.commits) == ([], [])
    assert pair.keeper.report.without == {"beyond": 1}
    pair.maps.tell(LANE, [(0, 0, 400), (500, 400, 150)], ends=(650, 550))
    await pair.keeper.step()
    assert (pair.told(), pair.committed()) == ([("g", 601, 501)], 501)


async def test_a_group_with_members_on_the_target_is_left_alone_until_they_leave(pair: Pair) -> None:
    pair.source.put("g", {LANE: 10})
    pair.target.members = {"g"}
    await pair.keeper.open()
    await pair.keeper.step()
    assert (pair.committed(), pair.keeper.report.active) == (None, 1)
    assert pair.told() == [("g", 10, 10)]
    pair.target.members = set()
    await pair.keeper.step()
    assert (pair.committed(), pair.keeper.report.active) == (10, 0)


async def test_a_consumer_that_joins_before_the_commit_is_protected_by_the_broker(pair: Pair) -> None:
    pair.source.put("g", {LANE: 10})

    def join(asked: str) -> None:
        if asked == "commit":
            pair.target.members = {"g"}

    pair.target.before = join
    await pair.keeper.open()
    await pair.keeper.step()
    assert (pair.committed(), pair.keeper.report.active, pair.keeper.report.failed) == (None, 1, {})


async def test_a_consumer_that_came_and_went_keeps_what_it_committed(pair: Pair) -> None:
    """It was not there when members were asked for, and its commit is seen because offsets are read behind that."""
    pair.source.put("g", {LANE: 10})

    def come_and_go(asked: str) -> None:
        if asked == "states":
            pair.target.put("g", {COPY: 77})

    pair.target.before = come_and_go
    await pair.keeper.open()
    await pair.keeper.step()
    assert (pair.committed(), pair.target.commits) == (77, [])


async def test_the_target_is_never_taken_back_but_for_a_group_that_went_back_itself(pair: Pair) -> None:
    pair.source.put("g", {LANE: 300})
    await pair.keeper.open()
    await pair.keeper.step()
    pair.source.put("g", {LANE: 100})
    await pair.keeper.step()
    assert pair.committed() == 100
    (back,) = pair.events(GroupWentBack)
    assert (back.group, back.partitions) == ("g", 1)
    assert "went back on the source" in back.text()
    pair.target.put("g", {COPY: 350})  # an application on the target read on
    pair.source.put("g", {LANE: 50})
    await pair.keeper.step()
    assert (pair.committed(), pair.keeper.report.ahead) == (350, 1)
    assert pair.told()[-1] == ("g", 50, 50)
    assert pair.events(GroupWentBack) == []


async def test_asked_to_a_keeper_takes_the_target_back() -> None:
    pair = Pair(backwards=True)
    pair.target.put("g", {COPY: 350})
    pair.source.put("g", {LANE: 50})
    await pair.keeper.open()
    await pair.keeper.step()
    assert pair.committed() == 50


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


async def test_what_lies_on_the_topic_beside_checkpoints_is_counted_and_passed_over(pair: Pair) -> None:
    key, value = encode_checkpoint(Checkpoint("g", "A.t", 0, 10, 10))
    records = [Record(0, 1, b"x", b"y"), Record(1, 1, key, None), Record(2, 1, key, value)]
    pair.cluster.targets[TopicPartition(CHECKPOINTS, 0)].append(bytes(encode_batch(records, NONE)))
    pair.source.put("g", {LANE: 10})
    log = pair.keeper._log
    await pair.keeper.open()
    assert (log.malformed, list(log.told)) == (2, ["g"])


async def test_an_unchanged_commit_is_renewed_before_it_expires(pair: Pair) -> None:
    pair.target.retention = 60.0
    pair.source.put("g", {LANE: 10})
    await pair.keeper.open()
    await pair.keeper.step()
    pair.now_s += 23.0
    await pair.keeper.step()
    assert len(pair.target.commits) == 1
    pair.now_s += 1.0
    await pair.keeper.step()
    assert len(pair.target.commits) == 2
    del pair.target.stored["g"]  # expired nevertheless, or deleted
    await pair.keeper.step()
    assert pair.committed() == 10


async def test_rounds_come_often_enough_for_a_short_retention() -> None:
    pair = Pair(commits_s=60.0, checkpoints_s=60.0)
    pair.target.retention = 60.0
    await pair.keeper.open()
    assert pair.keeper._every_s == 6.0


async def test_a_commit_above_a_target_that_lost_records_is_corrected(pair: Pair) -> None:
    pair.source.put("g", {LANE: 590})
    await pair.keeper.open()
    await pair.keeper.step()
    assert pair.committed() == 490
    pair.log.batches = []
    pair.cluster.source(*COPY).data(450)  # the log now ends there
    pair.maps.tell(LANE, [(0, 0, 400), (500, 400, 49)], ends=(549, 450), generation=2)
    await pair.keeper.step()
    assert (pair.told()[-1], pair.committed()) == (("g", 549, 450), 450)
    assert "lost records" in pair.events(GroupWentBack)[0].text()
    pair.cluster.sources[COPY].data(50)
    pair.maps.tell(LANE, [(0, 0, 400), (500, 400, 49), (549, 452, 48)], ends=(597, 500), generation=2)
    await pair.keeper.step()
    assert (pair.told()[-1], pair.committed()) == (("g", 590, 493), 493)


async def test_what_is_only_near_never_takes_anything_back(pair: Pair) -> None:
    class Syncs:
        answer = 60

        async def follow(self) -> None:
            return None

        def translate(self, _lane: TopicPartition, _source_offset: int) -> int:
            return self.answer

    near = Syncs()
    pair.keeper._translations._near = near
    pair.maps.tell(LANE, [(100, 100, 400)], ends=(500, 500), begins=(100, 100), first=False)
    pair.source.put("g", {LANE: 90})
    await pair.keeper.open()
    await pair.keeper.step()
    assert (pair.told(), pair.committed()) == ([("g", 90, 60)], 60)
    near.answer = 50
    await pair.keeper.step()
    assert (pair.told(), pair.committed()) == ([("g", 90, 60)], 60)
    pair.source.put("g", {LANE: 80})  # the group itself went back
    await pair.keeper.step()
    assert (pair.told()[1:], pair.committed()) == ([("g", 80, 50)], 50)


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


async def test_one_failing_group_fails_alone(pair: Pair) -> None:
    for group in ("a", "b", "c"):
        pair.source.put(group, {LANE: 10})
    pair.source.failing = {"a": "not authorized"}
    pair.target.failing = {"b": "coordinator away"}
    await pair.keeper.open()
    for _ in range(2):
        await pair.keeper.step()
    assert [pair.committed(group) for group in ("a", "b", "c")] == [None, None, 10]
    assert pair.keeper.report.failed == {"a": "not authorized", "b": "coordinator away"}
    assert [event.group for event in pair.events(GroupRefused)] == ["a", "b"]
    pair.target.failing = {}
    await pair.keeper.step()
    assert pair.committed("b") == 10
    assert pair.keeper.report.failed == {"a": "not authorized"}


@pytest.mark.parametrize("error", [KafkaRefusal("commit", 30, "GroupAuthorizationFailed", ""), ConnectionLost("b:1")])
async def test_a_commit_that_fails_is_made_again(pair: Pair, error: Exception) -> None:
    pair.source.put("g", {LANE: 10})

    def fail(asked: str) -> None:
        if asked == "commit":
            raise error

    pair.target.before = fail
    await pair.keeper.open()
    await pair.keeper.step()
    assert (pair.committed(), pair.keeper.report.failed) == (None, {"g": str(error)})
    pair.target.before = lambda _asked: None
    await pair.keeper.step()
    assert (pair.committed(), pair.keeper.report.failed) == (10, {})


async def test_a_partition_that_is_refused_is_named_and_wanted_again(pair: Pair) -> None:
    pair.target.partitions = set()
    pair.source.put("g", {LANE: 10})
    await pair.keeper.open()
    await pair.keeper.step()
    assert "A.t-0" in pair.keeper.report.failed["g"]
    pair.target.partitions = None
    await pair.keeper.step()
    assert pair.committed() == 10


async def test_nothing_is_written_while_the_flow_is_not_ours(pair: Pair) -> None:
    pair.ours = False
    pair.source.put("g", {LANE: 10})
    await pair.keeper.open()
    await pair.keeper.step()
    assert (pair.told(), pair.target.commits) == ([], [])


async def test_ownership_that_is_lost_in_a_round_stops_its_commits(pair: Pair) -> None:
    pair.source.put("g", {LANE: 10})

    def lose(asked: str) -> None:
        pair.ours = pair.ours and asked != "states"

    pair.target.before = lose
    await pair.keeper.open()
    await pair.keeper.step()
    assert (len(pair.told()), pair.target.commits) == (1, [])


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


async def test_checkpoints_that_were_not_acknowledged_are_told_again(pair: Pair) -> None:
    pair.source.put("g", {LANE: 10})
    pair.cluster.down.add(1)
    await pair.keeper.open()
    await pair.keeper.step()
    assert pair.told() == []
    assert "down" in pair.keeper.report.trouble
    pair.cluster.down.clear()
    await pair.keeper.step()
    assert (pair.told(), pair.keeper.report.trouble) == ([("g", 10, 10)], "")


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


async def test_rounds_go_on_behind_one_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = Pair(commits_s=5.0)
    pair.source.put("g", {LANE: 10})
    troubles: list[str] = []
    rounds = iter(range(4))

    def fail(asked: str) -> None:
        if asked == "list" and next(rounds) < 2:
            raise ConnectionLost("a:1")

    class Enough(Exception):
        """The test has seen what it wanted."""

    async def pause(seconds: float) -> None:
        if not seconds:
            return
        troubles.append(pair.keeper.report.trouble)
        if len(troubles) == 3:
            raise Enough

    monkeypatch.setattr(group_keeper, "pause", pause)
    pair.source.before = fail
    await pair.keeper.open()
    with pytest.raises(Enough):
        await pair.keeper.run()
    assert troubles == ["connection lost: a:1", "connection lost: a:1", ""]
    assert pair.committed() == 10
    assert pair.events(GroupRefused) == []


async def test_trouble_that_lasts_is_an_event_once(pair: Pair) -> None:
    for _ in range(5):
        pair.keeper.trouble("no permission")
    (event,) = pair.events(GroupRefused)
    assert event.text() == "consumer groups: not mirrored, tried again: no permission"
    assert pair.keeper.report.trouble == "no permission"
    await pair.keeper.open()
    await pair.keeper.step()
    assert pair.keeper.report.trouble == ""
    for _ in range(3):
        pair.keeper.trouble("again")
    assert len(pair.events(GroupRefused)) == 1


async def test_many_groups_in_one_round(pair: Pair) -> None:
    wanted: dict[str, Sequence[Stored]] = {}
    for number in range(700):
        pair.source.put(f"g{number}", {LANE: number % 400})
        wanted[f"g{number}"] = [(number % 400, "")]
    await pair.keeper.open()
    await pair.keeper.step()
    assert {group: list(offsets.values()) for group, offsets in pair.target.stored.items()} == wanted
    assert len(pair.told()) == 700
