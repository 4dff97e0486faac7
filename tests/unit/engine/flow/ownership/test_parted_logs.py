"""Logs that part from the map where nothing but numbers, leader epochs or contents tells so."""

import msgspec
import pytest

from engine.core.events.events import TargetCut, TargetGap
from engine.core.lane.states import State
from engine.core.offset_map.map_runs import MapRun
from engine.core.position.position import Behind, Seen
from engine.core.position.resume import REGRESSION, ResumePoint
from engine.core.position.target_tail import TailBatch
from engine.wire.batch import read_header, restamp
from tests.unit.engine.core.position.test_resume import EARLIER, NEWER, OTHER, foreign, marker, ours, read
from tests.unit.engine.core.positions import position
from tests.unit.engine.flow.io.test_leader_ends import COPY, mapped
from tests.unit.engine.flow.io.test_other_logs import Elected
from tests.unit.engine.flow.stage import TERMS, until

_WITH_OTHER_WRITERS = msgspec.structs.replace(TERMS, stop_on_foreign_writer=False)
LED_3, LED_4 = 3, 4


def led(batch: TailBatch, epoch: int) -> TailBatch:
    return msgspec.structs.replace(batch, leader_epoch=epoch)


class SameOwner(Elected):
    """The running owner's requests were in the socket of a broker that froze; a marker is at the next leader before."""

    own: tuple[int, int]
    sequences: dict[int, int]

    def take_own(self, *numbers: int) -> None:
        """The elected log took these of the source's batches late, of the running owner."""
        for number in numbers:
            batch = self.sources[0].batches[number]
            payload = bytearray(batch.encode())
            sequence = self.sequences[number]
            restamp(payload, 0, read_header(payload, 0), *self.own, sequence)
            self.targets[0].store_late(bytes(payload))

    async def copied_with(self, *, marker_first: bool, hole: bool) -> None:
        """Six records at 1 to 6; perhaps a keep-alive's marker; 6, 7, 8, perhaps a hole in the source, one more."""
        await self.fill()
        driver, log = self.driver(), self.targets[0]
        self.own = driver.lane.producer
        self.sequences = {3: 6, 4: 7, 5: 8}
        if marker_first:
            self.b.led(COPY).marker(*self.own)  # as a keep-alive's
        for _ in range(3):
            self.sources[0].data(1)
            self.a.grow()
            await until(self.written_down)
        if hole:
            self.sources[0].vanish(4)
        self.sources[0].data(1)
        self.a.grow()
        await until(self.written_down)
        assert log.end == driver.lane.target_next

    async def judged_again(self) -> None:
        self.a.grow()
        await until(lambda: self.told(TargetGap) or (self.told(TargetCut) and self.written_down()))


@pytest.mark.parametrize("hole", [False, True])
async def test_late_requests_of_the_same_owner_where_the_map_has_its_marker(hole: bool) -> None:
    """6 and 7 are one offset lower in this log than in the map: 7 must not be copied again, and the map must follow."""
    stage = SameOwner()
    stage.assign()
    async with stage.running():
        await stage.copied_with(marker_first=True, hole=hole)
        stage.lose(7, node=2, remembers=True)
        stage.take_own(3, 4)
        await stage.judged_again()
        if stage.told(TargetGap):
            return
        assert stage.copied() == stage.sources[0].wanted()
        assert mapped(stage) == stage.targets[0].places()


@pytest.mark.parametrize("hole", [False, True])
async def test_late_requests_of_the_same_owner_behind_a_marker_that_the_map_does_not_have(hole: bool) -> None:
    """The keep-alive's marker was in the same socket, before 6; the next leader got it later. 7 must not be lost."""
    stage = SameOwner()
    stage.assign()
    async with stage.running():
        await stage.copied_with(marker_first=False, hole=hole)
        stage.lose(7, node=2, remembers=True)
        stage.targets[0].marker(*stage.own)
        stage.take_own(3)
        await stage.judged_again()
        if stage.told(TargetGap):
            return
        assert stage.copied() == stage.sources[0].wanted()
        assert mapped(stage) == stage.targets[0].places()


# --- losses that the leader epochs of the batches show ---------------------------------------------------------------


@pytest.mark.parametrize(
    "filled",
    [
        (led(marker(48), LED_4), led(marker(49, NEWER), LED_4)),  # a keep-alive's marker, and the next barrier
        (led(marker(48), LED_4), led(marker(49), LED_4), led(marker(50, NEWER), LED_4)),  # two keep-alives'
        (led(foreign(48), LED_4), led(marker(49, NEWER), LED_4)),
        (led(foreign(48), LED_4), led(marker(49), LED_4), led(marker(50, NEWER), LED_4)),
    ],
    ids=["own+newer", "own+own", "foreign+newer", "foreign+own"],
)
def test_a_record_from_before_the_map_below_a_lost_barrier_is_lost_too(filled: tuple[TailBatch, ...]) -> None:
    """48 was a record of an earlier owner, before the start of the map; 49 this owner's barrier by leader epoch 3.

    A batch below the position of a later leader epoch than the barrier's proves that the log was cut at 48 or lower.
    """
    at = msgspec.structs.replace(position(100, 50, 0), behind=Seen(Behind.MARKER, LED_3), map_source=100, map_target=50)
    answer = read(at, led(ours(40, 700, 8, EARLIER), 2), *filled)
    assert not isinstance(answer, ResumePoint) or answer.how == REGRESSION, answer


def test_a_record_of_mm2_below_another_writers_is_lost_too() -> None:
    """MM2 wrote 48, and somebody else 49, by leader epoch 3; the elected log has two other records there."""
    at = msgspec.structs.replace(position(100, 50, 0), behind=Seen(Behind.OTHERS, LED_3), map_source=100, map_target=50)
    answer = read(at, led(foreign(40, 8), 2), led(foreign(48, 2), LED_4), led(marker(50, NEWER), LED_4))
    assert not isinstance(answer, ResumePoint) or answer.how == REGRESSION, answer


# --- false stops -----------------------------------------------------------------------------------------------------

NEW_ID = (5000, 0)


def test_a_lost_barrier_behind_records_of_an_earlier_producer_id_loses_no_record() -> None:
    """The id expired while the flow was off; its successor has only its barrier, which the next one's replaces."""
    at = position(49, 50, 0, producer=NEW_ID)
    at = msgspec.structs.replace(
        at, behind=Seen(Behind.MARKER, 3), map_source=0, map_target=0, map_first=True, map_tail=(MapRun(0, 0, 49),)
    )
    answer = read(at, ours(0, 0, 49, (41, 7)), led(marker(49, (5000, 1)), 4))
    assert isinstance(answer, ResumePoint), answer
    assert answer.source_next == 49


def test_a_loss_behind_records_of_an_earlier_producer_id_is_rewound() -> None:
    at = position(60, 62, 0, producer=(5000, 1))
    known = (MapRun(0, 0, 40), MapRun(40, 41, 20))
    at = msgspec.structs.replace(
        at, behind=Seen(Behind.MARKER, 3), map_source=0, map_target=0, map_first=True, map_tail=known
    )
    tail = (ours(0, 0, 40, (41, 7)), marker(40, NEW_ID), ours(41, 0, 10, NEW_ID), marker(51, (5000, 2)))
    answer = read(at, *tail)
    assert isinstance(answer, ResumePoint), answer
    assert (answer.source_next, answer.copied) == (50, ()), "50 to 59 are lost, and nothing is late"


def test_a_lost_barrier_behind_records_of_mm2_loses_no_record() -> None:
    """Offsets 0 to 39 are of MM2, taken over into the map; then an owner appended ten; the next has only a barrier."""
    known = (MapRun(0, 0, 40), MapRun(40, 41, 10))
    at = msgspec.structs.replace(
        position(50, 52, 0), behind=Seen(Behind.MARKER, 3), map_source=0, map_target=0, map_tail=known
    )
    tail = (foreign(0, 40), marker(40, EARLIER), ours(41, 0, 10, EARLIER), led(marker(51, NEWER), 4))
    answer = read(at, *tail)
    assert isinstance(answer, ResumePoint), answer
    assert (answer.source_next, answer.copied) == (50, ())


def test_what_the_cleaner_took_behind_another_writers_marker_is_no_loss() -> None:
    """Records 0 to 5 at 1 to 6 were tombstones, or replaced by another writer; the producer has expired (a day)."""
    at = msgspec.structs.replace(position(6, 8, 6), map_tail=(MapRun(0, 1, 6),))
    answer = read(at, foreign(0), marker(7, OTHER), marker(8, NEWER))
    assert isinstance(answer, ResumePoint), answer


# --- a lane that settles ---------------------------------------------------------------------------------------------


async def test_a_lane_that_settles_at_another_leader_does_not_believe_its_log() -> None:
    """Its last record is lost, another writer has written as much and more, and nobody has verified that leader yet."""
    stage = Elected()
    stage.copier = stage.new_copier(_WITH_OTHER_WRITERS)
    stage.assign()
    async with stage.running():
        await stage.fill()
        driver = stage.driver()
        driver.lane.state = State.SETTLING  # as after an append that was refused with OUT_OF_ORDER, or timed out
        stage.lose(5, node=2, remembers=True)
        stage.b.led(COPY).foreign(2)
        stage.b.led(COPY).foreign(1)
        await stage.copier._failures._settle(driver, driver.lane.target_next)
        stage.more()
        await until(lambda: stage.told(TargetGap) or stage.whole())
        if not stage.told(TargetGap):
            assert stage.told(TargetCut)
            assert stage.copied() == stage.sources[0].wanted()


async def test_a_refusal_that_shows_a_loss_is_not_settled_away() -> None:
    """A leader came back with a shorter log, which another writer has filled; it refuses the next sequence (45)."""
    stage = Elected()
    stage.copier = stage.new_copier(_WITH_OTHER_WRITERS)
    stage.assign()
    async with stage.running():
        await stage.fill()
        log = stage.targets[0]
        log.truncate(5)
        for known in log.producers.values():
            while known.batches and known.batches[-1][2] >= 5:
                known.batches.pop()
        log.lead(5).foreign(2)
        log.foreign(1)
        stage.more()
        await until(lambda: stage.told(TargetGap) or stage.written_down())
        if not stage.told(TargetGap):
            assert stage.copied() == stage.sources[0].wanted()
