"""Translated commits: from the exact maps, within the range of the target's log."""

from collections.abc import Sequence

import pytest

from engine.base.errors import ConnectionLost, KafkaRefusal
from engine.core.mm2.mm2_records import OffsetSync, encode_offset_sync
from engine.core.offset_map.offset_map import CLAMPED, NEAR
from engine.flow.groups.translations import ABOVE_END, NO_TARGET, UNREAD_STINTS, TranslatedOffset, Translations
from engine.flow.ports.ports import Leader
from engine.flow.topic_logs.sync_reader import SyncReader
from engine.wire.codecs import NONE
from engine.wire.record import Record
from engine.wire.records import encode_batch
from policies.model import FlowName, TopicPartition
from policies.naming import DefaultNaming
from policies.selection import TopicSelection
from tests.fakes.cluster import FakeCluster
from tests.fakes.maps import FakeMaps

LANE, OTHER = TopicPartition("t", 0), TopicPartition("u", 0)
SYNCS = "mm2-offset-syncs.B.internal"
COPY, OTHER_COPY = TopicPartition("A.t", 0), TopicPartition("A.u", 0)


class Desk:
    """A target, maps, and what translates."""

    def __init__(self) -> None:
        self.maps = FakeMaps()
        self.target = FakeCluster("B")
        self.copy(COPY, 0, 100)
        self.copy(OTHER_COPY, 0, 100)
        flow = FlowName("A", "B")
        self.near = SyncReader(self.target, SYNCS)
        self.translations = Translations(TopicSelection(flow, DefaultNaming()), self.maps, self.target, self.near)

    def copy(self, where: TopicPartition, start: int, end: int) -> None:
        log = self.target.source(*where)
        log.start = start
        log.data(end)

    def sync(self, *pairs: tuple[int, int]) -> None:
        """Write offset syncs of the lane, and something that is none."""
        where = TopicPartition(SYNCS, 0)
        log = self.target.targets.get(where) or self.target.target(SYNCS)
        records = [encode_offset_sync(OffsetSync("t", 0, *pair)) for pair in pairs]
        rows = [Record(n, 1, key, value) for n, (key, value) in enumerate([*records, (b"no", b"sync")])]
        log.append(bytes(encode_batch(rows, NONE)))

    async def ask(self, **offsets: int) -> dict[str, tuple[int, str]]:
        """Translate one commit of `t-0` per group."""
        commits = {group: {LANE: (offset, "m")} for group, offset in offsets.items()}
        found = await self.translations.places(commits)
        return {group: (rows[0].offset, rows[0].how) for group, rows in found.items()}


@pytest.fixture
def desk() -> Desk:
    return Desk()


async def test_a_place_says_how_it_was_found(desk: Desk) -> None:
    desk.maps.tell(LANE, [(5, 10, 10), (20, 30, 5)], ends=(25, 36))
    assert await desk.ask(inside=7, hole=17, end=25, beyond=26, very_first=0) == {
        "inside": (12, "run"),
        "hole": (30, "refined"),
        "end": (36, "end"),
        "beyond": (-1, "beyond"),
        "very_first": (10, "refined"),
    }


async def test_a_lane_without_a_map_has_no_answer(desk: Desk) -> None:
    assert await desk.ask(g=5) == {"g": (-1, "stale")}
    desk.maps.tell(LANE, [(5, 10, 10)], ends=(15, 20), begins=(5, 10), first=False)
    assert await desk.ask(g=4, h=5) == {"g": (-1, "before"), "h": (10, "run")}


async def test_a_whole_place_names_both_sides(desk: Desk) -> None:
    desk.maps.tell(LANE, [(0, 0, 10)], ends=(10, 10))
    found = await desk.translations.places({"g": {LANE: (3, "meta"), TopicPartition("B.x", 0): (1, "")}, "h": {}})
    assert found == {"g": [TranslatedOffset(LANE, COPY, 3, 3, "run", "meta")], "h": []}
    assert desk.maps.followed == [{LANE}, {LANE}]


async def test_no_answer_is_above_the_targets_end_or_below_its_start(desk: Desk) -> None:
    desk.maps.tell(LANE, [(0, 0, 150)], ends=(150, 150))
    desk.target.sources[COPY].start = 40
    assert await desk.ask(low=39, start=40, high=100, above=101) == {
        "low": (40, CLAMPED),
        "start": (40, "run"),
        "high": (100, "run"),
        "above": (-1, ABOVE_END),
    }


async def test_what_was_told_above_the_end_is_lost_and_where_the_copy_ends_instead(desk: Desk) -> None:
    desk.maps.tell(LANE, [(0, 0, 90)], ends=(90, 91))
    await desk.ask(g=120)
    head = desk.translations.lost(LANE, 101)
    assert head is not None
    assert (head.source_next, head.target_next) == (90, 91)
    assert desk.translations.lost(LANE, 100) is None
    assert desk.translations.lost(OTHER, 101) is None
    desk.maps.tell(LANE, [(0, 0, 120)], ends=(120, 120))  # the copy does not know of the loss yet
    await desk.ask(g=120)
    assert desk.translations.lost(LANE, 101) is None


async def test_answers_from_before_the_target_lost_records_are_taken_back(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lost and copied again, to other offsets, between the look at the maps and the look at the ends."""
    desk.maps.tell(LANE, [(0, 0, 100)], ends=(100, 100))
    desk.maps.tell(OTHER, [(0, 0, 100)], ends=(100, 100))
    offsets = desk.target.offsets

    async def lost(partitions: Sequence[TopicPartition], at_ms: int) -> dict[TopicPartition, int]:
        desk.copy(COPY, 0, 103)
        desk.maps.tell(LANE, [(0, 0, 90), (90, 93, 10)], ends=(100, 103), generation=2)
        return dict(await offsets(partitions, at_ms))

    monkeypatch.setattr(desk.target, "offsets", lost)
    found = await desk.translations.places({"g": {LANE: (95, ""), OTHER: (95, "")}})
    assert [(row.offset, row.how) for row in found["g"]] == [(-1, "stale"), (95, "run")]
    assert await desk.ask(g=95, h=89) == {"g": (98, "run"), "h": (89, "run")}


async def test_syncs_of_ours_are_no_answer_for_a_lane_that_has_just_begun(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first position came behind the look at the maps, and its first sync before the look at the syncs."""
    leaders = desk.target.leaders

    async def begin(partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Leader]:
        desk.sync((10, 12))
        desk.maps.tell(LANE, [(0, 1, 50)], ends=(50, 51))
        monkeypatch.setattr(desk.target, "leaders", leaders)
        return dict(await leaders(partitions))

    monkeypatch.setattr(desk.target, "leaders", begin)
    assert await desk.ask(g=45) == {"g": (-1, "stale")}
    assert await desk.ask(g=45) == {"g": (46, "run")}


async def test_syncs_are_no_answer_for_a_lane_whose_map_cannot_be_read(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group would go back to what its syncs say, and forth again when the broker of the map is back."""
    desk.sync((10, 11), (40, 41))
    assert await desk.ask(g=70) == {"g": (42, NEAR)}
    monkeypatch.setattr(desk.maps, "begun", lambda _lane: True)
    assert await desk.ask(g=70) == {"g": (-1, "stale")}


async def test_thinned_blocks_are_read_back_one_by_one(desk: Desk) -> None:
    desk.maps.tell_blocks(LANE, [[(0, 0, 10)], [(20, 10, 10)], [(40, 20, 10)]], ends=(50, 30))
    assert await desk.ask(a=5, b=25, c=6, d=35, e=49) == {
        "a": (5, "run"),
        "b": (15, "run"),
        "c": (6, "run"),
        "d": (20, "refined"),
        "e": (29, "run"),
    }
    assert [blocks for _, blocks in desk.maps.recalled] == [[0], [1], [2]]


async def test_a_target_without_a_leader_fails_alone(desk: Desk) -> None:
    for lane in (LANE, OTHER):
        desk.maps.tell(lane, [(0, 0, 10)], ends=(10, 10))
    del desk.target.leader[OTHER_COPY]
    found = await desk.translations.places({"g": {LANE: (3, ""), OTHER: (4, "")}})
    assert [(place.offset, place.how) for place in found["g"]] == [(3, "run"), (-1, NO_TARGET)]


@pytest.mark.parametrize("error", [ConnectionLost("b:1"), KafkaRefusal("offsets", 29, "TopicAuthorizationFailed", "")])
async def test_a_topic_that_cannot_be_asked_about_fails_alone(desk: Desk, error: Exception) -> None:
    for lane in (LANE, OTHER):
        desk.maps.tell(lane, [(0, 0, 10)], ends=(10, 10))

    def fail(asked: str, partitions: Sequence[TopicPartition]) -> None:
        if asked == "offsets" and OTHER_COPY in partitions:
            raise error

    desk.target.fail = fail
    found = await desk.translations.places({"g": {LANE: (3, ""), OTHER: (4, "")}})
    assert [(place.offset, place.how) for place in found["g"]] == [(3, "run"), (-1, NO_TARGET)]


async def test_below_the_map_mm2s_syncs_are_near_and_never_ahead(desk: Desk) -> None:
    desk.maps.tell(LANE, [(50, 60, 10)], ends=(60, 70), begins=(50, 60), first=False)
    assert await desk.ask(g=45) == {"g": (-1, "before")}  # there is no topic of syncs
    desk.sync((10, 12), (40, 44))
    asked = await desk.ask(old=9, at=10, behind=20, last=40, near=45, exact=50)
    assert asked == {
        "old": (-1, "before"),
        "at": (12, NEAR),
        "behind": (13, NEAR),
        "last": (44, NEAR),
        "near": (45, NEAR),
        "exact": (60, "run"),
    }
    desk.sync((44, 50))
    assert await desk.ask(near=45) == {"near": (51, NEAR)}
    desk.target.sources[COPY].start = 80
    assert await desk.ask(near=45) == {"near": (80, CLAMPED)}


async def test_syncs_in_a_topic_that_was_made_anew_are_read(desk: Desk) -> None:
    desk.sync((10, 12), (20, 24))
    assert await desk.ask(g=21) == {"g": (25, NEAR)}
    del desk.target.targets[TopicPartition(SYNCS, 0)]
    desk.sync((20, 30))
    assert await desk.ask(g=21) == {"g": (31, NEAR)}


async def test_a_lane_that_we_never_copied_is_known_from_mm2s_syncs(desk: Desk) -> None:
    desk.sync((10, 12))
    assert await desk.ask(g=11) == {"g": (13, NEAR)}
    place = (await desk.translations.places({"g": {LANE: (11, "")}}))["g"][0]
    assert not place.exact


async def test_syncs_that_cannot_be_read_answer_nothing(desk: Desk) -> None:
    desk.sync((10, 12))

    def fail(asked: str, _partitions: Sequence[TopicPartition]) -> None:
        if asked == "read log":
            raise KafkaRefusal("reading", 29, "TopicAuthorizationFailed", "")

    desk.target.fail = fail
    assert await desk.ask(g=11) == {"g": (-1, "stale")}


async def test_an_offset_before_the_map_says_why_earlier_stints_do_not_answer(desk: Desk) -> None:
    desk.maps.tell(LANE, [(5, 10, 10)], ends=(15, 20), begins=(5, 10), first=False)
    desk.maps.without_stints = "b:1 is down"
    assert await desk.ask(g=4, h=5) == {"g": (-1, UNREAD_STINTS), "h": (10, "run")}
    assert desk.translations.without_stints == "b:1 is down"
    desk.sync((2, 8))
    assert await desk.ask(g=4) == {"g": (9, NEAR)}, "as long as they are not known"
