"""Turns of a group keeper that reads commits: which groups it checks, when it checks all, and its fallback."""

import asyncio

import pytest

from engine.base.errors import ConnectionLost
from engine.core.events.events import CommitsNotRead
from engine.core.events.recovery_events import WorksAgain
from engine.core.mm2.commit_records import NO_OFFSET
from engine.flow.groups import sync_loop as group_keeper
from engine.flow.groups.translations import TranslatedOffset
from engine.flow.ports.ports import GroupListing
from tests.fakes.group_pair import LANE, Pair


class Told:
    """A keeper that hears of commits, whose first round is made; `asked` are the groups of each look since then."""

    def __init__(self, pair: Pair) -> None:
        self.pair, self.reader = pair, pair.read_commits()
        self.asked: list[list[str]] = []
        pair.source.before = lambda _asked: None

    @classmethod
    async def make(cls, monkeypatch: pytest.MonkeyPatch, groups: int = 3, **options: object) -> "Told":
        pair = Pair(**{"refresh_s": 900.0, "checkpoints_s": 900.0, "commits_s": 900.0, **options})
        pair.hold_clock(monkeypatch)
        made = cls(pair)
        for number in range(groups):
            pair.source.put(f"g{number}", {LANE: 10})
        await pair.keeper.open()
        await pair.keeper.turn()
        assert pair.keeper.report.on_commit
        real = pair.keeper._translations.places

        async def places(commits: dict[str, object]) -> dict[str, list[TranslatedOffset]]:
            made.asked.append(sorted(commits))
            return await real(commits)  # type: ignore[arg-type]

        monkeypatch.setattr(pair.keeper._translations, "places", places)
        return made

    def commit(self, group: str, offset: int, *, hint: int | None = None) -> None:
        """Commit on the source, and let it be heard of."""
        self.pair.source.put(group, {LANE: offset})
        self.reader.see(group, {LANE: offset if hint is None else hint})

    async def turn(self, later_s: float = 1.0) -> None:
        self.pair.now_s += later_s
        await self.pair.keeper.turn()


async def test_only_who_committed_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    told = await Told.make(monkeypatch)
    told.commit("g1", 20)
    await told.turn()
    await told.turn()
    assert told.asked == [["g1"], []]
    assert told.pair.told()[3:] == [("g1", 20, 20)]
    assert told.pair.committed("g1") == 20
    report = told.pair.keeper.report
    assert (report.groups, report.how, report.checkpoints, report.commits) == (3, {"run": 3}, 4, 4)
    assert (report.commit_latency.count, report.latency.count, report.map_bytes) == (1, 4, 24)


async def test_all_are_looked_at_once_in_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    told = await Told.make(monkeypatch, checkpoints_s=5.0, sweep_s=60.0)
    told.pair.source.put("g2", {LANE: 30})  # nobody has heard of it
    for _ in range(59):
        await told.turn()
    assert told.pair.committed("g2") == 10
    await told.turn()
    assert (told.asked[-1], told.pair.committed("g2")) == (["g0", "g1", "g2"], 30)


async def test_all_are_looked_at_soon_where_something_was_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    told = await Told.make(monkeypatch, checkpoints_s=5.0)
    told.reader.missed = True
    await told.turn()
    assert told.asked == [[]], "not more often than where all are polled"
    await told.turn(4.0)
    await told.turn(4.0)
    assert told.asked == [[], ["g0", "g1", "g2"], []]


async def test_a_lane_with_a_new_owner_has_all_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    told = await Told.make(monkeypatch, checkpoints_s=5.0)
    await told.turn()  # the first look was the first word of the lane
    await told.turn(5.0)
    told.asked.clear()
    told.pair.maps.tell(LANE, [(0, 0, 400), (500, 400, 100)], ends=(600, 500), generation=2)
    await told.turn()
    await told.turn(5.0)
    await told.turn(5.0)
    assert told.asked == [[], ["g0", "g1", "g2"], []]


async def test_an_answer_that_may_come_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    told = await Told.make(monkeypatch)
    told.commit("g1", 700)
    for later_s in (0.25, 0.25, 0.25, 0.25):
        await told.turn(later_s)
    assert told.asked == [["g1"], ["g1"], [], ["g1"]]
    assert told.pair.told()[3:] == [("g1", 600, 500)], "the end of the copy meanwhile"
    told.pair.maps.tell(LANE, [(0, 0, 400), (500, 400, 300)], ends=(800, 700))
    await told.turn()
    assert told.pair.told()[4:] == [("g1", 700, 600)]
    assert told.pair.keeper.report.commit_latency.count == 1


async def test_groups_that_are_ahead_follow_the_end_of_the_copy_as_often_as_that_is_cheap(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = await Told.make(monkeypatch, refresh_s=0.1)
    spent = iter((0.0, 0.5, *[1.0] * 60))
    monkeypatch.setattr(group_keeper, "cpu_s", lambda: next(spent))
    told.commit("g1", 700)
    await told.turn()
    assert told.pair.told()[3:] == [("g1", 600, 500)]
    for second in range(1, 11):  # half a second of CPU is rested from for ten
        told.pair.maps.tell(LANE, [(0, 0, 400), (500, 400, 100 + second)], ends=(600 + second, 500 + second))
        told.commit("new", 700)
        told.commit("g1", 700 + second)
        await told.turn()
    assert told.pair.told()[4:] == [("new", 601, 501), ("g1", 610, 510), ("new", 610, 510)]
    assert (told.pair.committed("g1"), told.pair.committed("new")) == (510, 510)
    ends = range(511, 517)
    for end in ends:  # their pauses between retries grow meanwhile
        told.pair.maps.tell(LANE, [(0, 0, 400), (500, 400, end - 400)], ends=(end + 100, end))
        await told.turn()
    assert told.pair.told()[7:] == [(group, end + 100, end) for end in ends for group in ("g1", "new")]


async def test_members_that_leave_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    told = await Told.make(monkeypatch)
    told.pair.target.members = {"g1"}
    told.commit("g1", 20)
    await told.turn()
    assert (told.pair.committed("g1"), told.pair.keeper.report.active) == (10, 1)
    told.pair.target.members = set()
    await told.turn()
    assert (told.pair.committed("g1"), told.pair.keeper.report.active) == (20, 0)


async def test_a_coordinator_that_is_behind_its_log_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    told = await Told.make(monkeypatch)
    told.reader.see("g1", {LANE: 20})
    await told.turn()
    told.pair.source.put("g1", {LANE: 20})
    await told.turn()
    await told.turn()
    assert told.asked == [["g1"], ["g1"], []]
    assert told.pair.committed("g1") == 20
    told.commit("g1", 30, hint=NO_OFFSET)
    await told.turn()
    await told.turn()
    assert told.asked[3:] == [["g1"], []]


async def test_a_new_group_is_looked_for_when_it_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    told = await Told.make(monkeypatch)
    told.commit("new", 40)
    await told.turn(0.5)
    assert told.pair.keeper.report.groups == 3, "one look a second"
    await told.turn(0.5)
    assert (told.asked, told.pair.committed("new")) == ([[], ["new"]], 40)


async def test_a_new_group_is_looked_for_a_second_later_if_it_commits_right_behind_a_listing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing else may wake the loop: no other commit comes, no retry is due, and the next round is 900 s away."""
    told = await Told.make(monkeypatch)
    waits: list[float] = []

    async def wait(most_s: float) -> None:
        waits.append(most_s)
        told.pair.now_s += most_s
        if len(waits) == 2:
            raise Enough

    async def pause(seconds: float) -> None:
        await asyncio.sleep(0)  # the turn that takes the commit comes right behind the listing

    monkeypatch.setattr(group_keeper, "pause", pause)
    monkeypatch.setattr(told.reader, "wait", wait)
    told.commit("new", 40)
    with pytest.raises(Enough):
        await told.pair.keeper.run()
    assert (told.asked, told.pair.committed("new")) == ([[], ["new"]], 40)
    assert waits == [1.0, 900.0]


async def test_a_group_that_is_not_mirrored_is_not_looked_for_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    told = await Told.make(monkeypatch)
    told.pair.source.listed["streams"] = GroupListing("streams", "streams", "streams")
    looks: list[str] = []
    told.pair.source.before = lambda asked: looks.append(asked) if asked == "list" else None
    for _ in range(3):
        told.reader.see("streams", {LANE: 1})
        await told.turn()
    assert looks == ["list"]
    assert told.asked == [[], [], []]


async def test_new_groups_are_not_looked_for_where_that_is_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    told = await Told.make(monkeypatch, refresh=False)
    told.commit("new", 40)
    await told.turn()
    assert (told.asked, told.pair.committed("new")) == ([[]], None)


async def test_a_group_that_is_gone_is_owed_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    told = await Told.make(monkeypatch, refresh_s=2.0)
    told.commit("g1", 700)
    await told.turn(0.5)
    del told.pair.source.stored["g1"]
    await told.turn(2.0)
    told.reader.see("g1", {LANE: 5})  # its last word, read late
    await told.turn(2.0)
    await told.turn(2.0)
    assert told.asked == [["g1"], [], [], []]
    report = told.pair.keeper.report
    assert (report.groups, report.how, report.without) == (2, {"run": 2}, {})


async def test_a_keeper_that_cannot_read_polls_and_says_so_once(monkeypatch: pytest.MonkeyPatch) -> None:
    told = await Told.make(monkeypatch, checkpoints_s=5.0, sweep_s=60.0)
    told.reader.why_not = "grant Read"
    for _ in range(20):
        await told.turn(5.0)
    assert told.asked == [["g0", "g1", "g2"]] * 20
    (event,) = told.pair.events(CommitsNotRead)
    assert "polled every 5 s" in event.text()
    assert "grant Read" in event.text()
    report = told.pair.keeper.report
    assert (report.on_commit, report.polled_because) == (False, "grant Read")
    told.reader.why_not = ""
    await told.turn(5.0)
    assert told.pair.keeper.report.on_commit
    (again,) = told.pair.events(WorksAgain)
    assert again.text() == "consumer groups: raymirror reads commits as they happen again"
    told.reader.why_not = "again"
    for _ in range(20):
        await told.turn(5.0)
    assert len(told.pair.events(CommitsNotRead)) == 1


async def test_a_keeper_that_waited_for_its_clusters_says_nothing_before_reading_could_begin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pair = Pair(refresh_s=900.0, checkpoints_s=5.0, commits_s=900.0, sweep_s=60.0)
    pair.hold_clock(monkeypatch)
    told = Told(pair)
    told.reader.why_not = "not begun"
    pair.now_s += 100.0  # the keeper was made, and a cluster did not answer for so long
    await pair.keeper.open()
    for _ in range(6):
        await told.turn(5.0)
    assert pair.events(CommitsNotRead) == []
    await told.turn(5.0)
    assert len(pair.events(CommitsNotRead)) == 1


async def test_a_cluster_that_never_had_a_group_gets_no_warning_of_commits_that_nobody_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = await Told.make(monkeypatch, groups=0, checkpoints_s=5.0, sweep_s=60.0, refresh_s=5.0)
    told.reader.why_not, told.reader.not_there = "topic __consumer_offsets is not there", True
    for _ in range(20):
        await told.turn(5.0)
    report = told.pair.keeper.report
    assert (report.on_commit, report.polled_because, report.groups) == (False, "", 0)
    assert told.pair.events(CommitsNotRead) == []
    told.pair.source.put("g0", {LANE: 10})  # so the topic is there, and it is we who may not see it
    for _ in range(20):
        await told.turn(5.0)
    report = told.pair.keeper.report
    assert (report.polled_because, report.groups) == ("topic __consumer_offsets is not there", 1)
    assert len(told.pair.events(CommitsNotRead)) == 1


class Enough(Exception):
    """The test has seen what it wanted."""


async def test_hints_that_were_taken_by_a_turn_that_failed_are_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    told = await Told.make(monkeypatch, checkpoints_s=5.0)
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        if seconds:
            pauses.append(seconds)
            told.pair.now_s += seconds
            told.pair.source.before = lambda _asked: None
            await asyncio.sleep(0)
            if len(pauses) == 20:
                raise Enough

    def fail(asked: str) -> None:
        if asked == "offsets":
            raise ConnectionLost("a:1")

    monkeypatch.setattr(group_keeper, "pause", pause)
    told.commit("g1", 20)
    told.pair.source.before = fail
    with pytest.raises(Enough):
        await told.pair.keeper.run()
    assert pauses[0] == told.pair.keeper.options.retry_s
    assert told.pair.committed("g1") == 20


async def test_what_happens_while_the_flow_is_not_ours_is_made_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
    told = await Told.make(monkeypatch, checkpoints_s=5.0)
    waits: list[float] = []

    async def wait(most_s: float) -> None:
        waits.append(most_s)
        told.pair.now_s += most_s
        if len(waits) == 3:
            raise Enough

    async def pause(seconds: float) -> None:
        if seconds:
            told.pair.now_s += seconds
            told.pair.ours = told.pair.now_s > 1020.0
            await asyncio.sleep(0)

    monkeypatch.setattr(group_keeper, "pause", pause)
    monkeypatch.setattr(told.reader, "wait", wait)
    told.pair.ours = False
    told.pair.source.put("g2", {LANE: 30})
    with pytest.raises(Enough):
        await told.pair.keeper.run()
    assert told.pair.committed("g2") == 30
    assert told.asked[0] == ["g0", "g1", "g2"]
    assert waits[0] == pytest.approx(4.5)


async def test_a_reader_that_begins_is_not_waited_for_until_the_next_round(monkeypatch: pytest.MonkeyPatch) -> None:
    told = await Told.make(monkeypatch)
    waits: list[float] = []

    async def wait(most_s: float) -> None:
        waits.append(most_s)
        told.pair.now_s += 1.0  # then there is news
        told.reader.why_not = ""
        if len(waits) == 2:
            raise Enough

    async def pause(seconds: float) -> None:
        told.pair.now_s += seconds

    monkeypatch.setattr(group_keeper, "pause", pause)
    monkeypatch.setattr(told.reader, "wait", wait)
    told.reader.why_not = "not begun"
    with pytest.raises(Enough):
        await told.pair.keeper.run()
    assert waits[0] == pytest.approx(899.5)
    assert told.pair.keeper.report.on_commit


async def test_a_turn_that_cost_much_is_rested_from(monkeypatch: pytest.MonkeyPatch) -> None:
    told = await Told.make(monkeypatch, checkpoints_s=5.0)
    pauses: list[float] = []
    spent = iter((10.0, 10.0, 11.5, 11.5))

    async def pause(seconds: float) -> None:
        if seconds:
            pauses.append(seconds)
            raise Enough

    monkeypatch.setattr(group_keeper, "pause", pause)
    monkeypatch.setattr(group_keeper, "cpu_s", lambda: next(spent))
    with pytest.raises(Enough):
        await told.pair.keeper.run()
    assert pauses == [3.0]
