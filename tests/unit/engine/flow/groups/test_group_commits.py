"""The commits of a group keeper on the target, and the offsets that it does not touch."""

import pytest

from engine.base.errors import ConnectionLost, KafkaRefusal
from engine.core.events.events import GroupWentBack
from engine.flow.groups.group_commits import CommitRules, GroupCommits
from policies.model import TopicPartition
from tests.fakes.group_pair import COPY, FLOW, LANE, Pair


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch) -> Pair:
    made = Pair()
    made.hold_clock(monkeypatch)
    return made


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


async def test_ownership_that_is_lost_in_a_round_stops_its_commits(pair: Pair) -> None:
    pair.source.put("g", {LANE: 10})

    def lose(asked: str) -> None:
        pair.ours = pair.ours and asked != "states"

    pair.target.before = lose
    await pair.keeper.open()
    await pair.keeper.step()
    assert (len(pair.told()), pair.target.commits) == (1, [])


@pytest.mark.parametrize("renews", [True, False])
async def test_what_is_equal_and_of_unknown_age_is_renewed_by_who_renews(pair: Pair, *, renews: bool) -> None:
    pair.source.put("g", {LANE: 10})
    pair.source.put("h", {LANE: 20})
    pair.target.put("g", {COPY: 10})
    commits = GroupCommits(FLOW, pair.target, pair.keeper._translations, rules=CommitRules(renews=renews))
    places = await pair.keeper._translations.places(pair.source.stored)
    assert await commits.commit(places) == {}
    assert sorted(group for group, _ in pair.target.commits) == (["g", "h"] if renews else ["h"])


@pytest.mark.parametrize(("ends", "stored", "committed"), [(True, None, 500), (False, None, None), (True, 450, 450)])
async def test_the_end_of_the_copy_is_committed_only_where_nobody_else_has_committed(
    pair: Pair, ends: bool, stored: int | None, committed: int | None
) -> None:
    pair.source.put("g", {LANE: 700})
    if stored is not None:
        pair.target.put("g", {COPY: stored})
    commits = GroupCommits(FLOW, pair.target, pair.keeper._translations, rules=CommitRules(backwards=True, ends=ends))
    assert await commits.commit(await pair.keeper._translations.places(pair.source.stored)) == {}
    assert pair.committed() == committed
