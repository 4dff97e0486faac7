"""Logs of a copy that are rare: cleaned behind other writers, cut in other places, with times of their own."""

from collections.abc import Sequence
from itertools import count

import msgspec
import pytest

from engine.base.errors import KafkaRefusal
from engine.core.events.events import TargetCut, TargetGap
from engine.core.lane.states import State
from engine.core.offset_map.map_runs import MapRun
from engine.core.position.position import Behind, Seen
from engine.core.position.resume import ResumePoint
from engine.core.position.takeover import fingerprint
from engine.core.position.target_tail import Tail, split_at
from engine.flow.ownership import takeover
from engine.flow.ownership.told_by_contents import ended
from engine.wire.record import Record
from tests.unit.engine.core.position.test_resume import NEWER, OTHER, foreign, marker, ours
from tests.unit.engine.core.positions import position
from tests.unit.engine.flow.io.test_leader_ends import mapped
from tests.unit.engine.flow.io.test_other_logs import Elected
from tests.unit.engine.flow.ownership.test_parted_logs import SameOwner
from tests.unit.engine.flow.ownership.test_takeover import mm2_copied
from tests.unit.engine.flow.stage import until


async def test_records_that_the_cleaner_took_before_another_writers_marker_are_not_copied_again() -> None:
    """Records 0 to 99 at 1 to 100 in two batches; then another writer's transaction at 101 (data) and 102 (marker).

    The lane settled an append without an answer behind that marker (position at 103), and the source came to rest.
    Within days the segment rolled, the producers expired, and the cleaner deleted 50 to 99 (tombstones, or keys that
    later records replace). Nothing is lost. The next owner's barrier is at 103.
    """
    at = msgspec.structs.replace(
        position(100, 103, 100),
        map_source=0,
        map_target=1,
        map_first=True,
        map_tail=(MapRun(0, 1, 100),),
        behind=Seen(Behind.OTHERS, 3),
    )
    tail = Tail(
        log_start=0,
        end=104,
        batches=(
            msgspec.structs.replace(marker(0), leader_epoch=3),
            msgspec.structs.replace(ours(1, 0, 50), leader_epoch=3),
            msgspec.structs.replace(marker(102, OTHER), leader_epoch=3),
            msgspec.structs.replace(marker(103, NEWER), leader_epoch=4),
        ),
    )

    async def compare(_runs: Sequence[MapRun]) -> bool:
        return True  # what is there is the source's

    answer = await ended(at, tail, compare)
    assert isinstance(answer, ResumePoint)
    assert (answer.how, answer.source_next) == ("position", 100), answer


async def test_the_same_where_the_cleaner_left_other_writers_records() -> None:
    at = msgspec.structs.replace(
        position(100, 103, 100),
        map_source=0,
        map_target=1,
        map_first=True,
        map_tail=(MapRun(0, 1, 100),),
        behind=Seen(Behind.OTHERS, 3),
    )
    batches = marker(0), ours(1, 0, 50), foreign(101), marker(102, OTHER), marker(103, NEWER)
    tail = Tail(log_start=0, end=104, batches=batches)

    async def compare(_runs: Sequence[MapRun]) -> bool:
        return True

    answer = await ended(at, tail, compare)
    assert isinstance(answer, ResumePoint)
    assert (answer.how, answer.source_next) == ("position", 100), answer


async def test_a_whole_batch_where_the_lane_has_acknowledged_its_first_half() -> None:
    """Records 2 to 5 went to X as one batch; X froze. Y refused it (a lower limit): cut in two, and 2-3 acknowledged.

    The position is behind 3. X takes the whole batch up, at the same offset, and leads by an unclean election: its log
    has every record once, in order, so the lane can go on behind 5.
    """
    at = msgspec.structs.replace(
        position(4, 5, 4, ((4, 4),)), map_source=0, map_target=1, map_first=True, map_tail=(MapRun(0, 1, 4),)
    )
    log = (marker(0), ours(1, 0, 2), ours(3, 2, 4), marker(7, NEWER))

    async def compare(_runs: object) -> bool:
        return True

    answer = await ended(at, Tail(log_start=0, end=8, batches=tuple(split_at(at, log))), compare)
    assert isinstance(answer, ResumePoint), answer
    assert answer.source_next == 6


async def test_late_requests_and_behind_them_what_mm2_copied() -> None:
    """The map has 4 to 6 at 5 to 7. X: a keep-alive's marker at 5, so 4 to 6 are at 6 to 8. MM2 went on with 7 and 8.

    MM2 began at raymirror's position (`takes_over`, the default), and was killed before it wrote one of its own.
    """
    stage = SameOwner()
    stage.assign()
    async with stage.running():
        await stage.fill()
        driver = stage.driver()
        stage.own, stage.sequences = driver.lane.producer, {2: 4, 3: 6}
        stage.sources[0].data(1)
        stage.a.grow()
        await until(stage.written_down)
        assert stage.driver().lane.target_next == 8
    stage.lose(5, node=2, remembers=True)
    stage.targets[0].marker(*stage.own)
    stage.take_own(2, 3)
    stage.sources[0].data(2)
    mm2_copied(stage, [7, 8], None)
    stage.succeed(2, node_epoch=6)
    async with stage.running():
        await until(lambda: stage.state() is State.FAILED or stage.written_down())
        if not stage.told(TargetGap):
            assert stage.state() is not State.FAILED
            assert stage.copied() == stage.sources[0].wanted()
            said, there = mapped(stage), stage.targets[0].places()
            assert said == {source: there[source] for source in said}


async def test_without_the_right_to_describe_configs_a_loss_is_mended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The target keeps its own times (LogAppendTime), and raymirror may not describe configs. A loss is rewound."""
    stage = Elected()
    stage.assign()
    async with stage.running():
        await stage.fill()
        stage.sources[0].data(1)
        stage.a.grow()
        await until(stage.written_down)

        async def denied(topics: Sequence[str], _names: Sequence[str]) -> dict[str, dict[str, str]]:
            raise KafkaRefusal(f"configs of topic {topics[0]}", 29, "TopicAuthorizationFailed", "grant DescribeConfigs")

        def differing(record: Record, *, timed: bool) -> int:
            return next(unlike) if timed else fingerprint(record, timed=False)

        unlike = count()
        monkeypatch.setattr(stage.b, "topic_configs", denied)
        monkeypatch.setattr(takeover, "fingerprint", differing)
        stage.lose(7, node=2, remembers=True)
        await until(lambda: stage.told(TargetCut) or stage.told(TargetGap))
        await until(stage.whole)
        assert stage.told(TargetCut)
