"""A lane merges small batches that wait: same records, sequences and places in the map, and nothing that was sent."""

from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.lane import rebatching
from engine.core.lane.actions import Retry, RetryRefused, Split
from engine.core.lane.intake import stamp, work_for
from engine.core.lane.lane import Lane
from engine.core.lane.outcome import Outcome, OutcomeKind
from engine.core.lane.pending_batch import Limits, PendingBatch
from engine.core.lane.rebatching import rebatch_rules
from engine.core.lane.stretch_intake import take_in_stretches
from engine.core.position.resume import ResumePoint, read_tail
from engine.core.position.target_tail import Tail
from engine.wire import native
from engine.wire.batch import read_header
from engine.wire.codecs import GZIP, LZ4, NONE, ZSTD
from engine.wire.merging.cut import cut
from engine.wire.records import Record, decode_records
from policies.rebatch import COMPILED, PURE, RebatchRules, SmallBatches
from tests.unit.engine.core.lanes import FLOW, NAME, K, Played, Shares, as_tail, start
from tests.unit.engine.wire.batches import LOG_APPEND, TRANSACTIONAL, batch, control, legacy, records
from tests.unit.engine.wire.merging.sets import joined, small, sources

pytestmark = pytest.mark.usefixtures("way")

RULES = RebatchRules(small=SmallBatches(2000, 2000), plain_records=0, compressed_batches=0)
QUEUED = RebatchRules(small=SmallBatches(100_000, 100_000), plain_records=0, compressed_batches=0)


class Merging(Played):
    """A lane that merges, and takes any bytes."""

    def __init__(self, rules: RebatchRules | None = RULES) -> None:
        super().__init__(limits=Limits(queue_bytes=1 << 30, rebatch=rules))

    def bring(self, built: bytearray, aborted: list[tuple[int, int]] | None = None) -> None:
        """Take in what one fetch brings."""
        shares = Shares()
        self.shares.append(shares)
        view = memoryview(bytearray(built))
        work = work_for(self.lane, view, 0, len(view), aborted=aborted or [], max_batch_bytes=1 << 20)
        take_in_stretches(self.lane, work, shares)
        shares.release()
        self.durable()

    def next(self, limit_bytes: int = 1 << 20, *, queues: bool = False) -> PendingBatch | None:
        piece = self.lane.next_append(limit_bytes, queues=queues)
        if piece is not None:
            stamp(piece, *self.lane.producer)
        return piece

    def drain(self, limit_bytes: int = 1 << 20) -> list[PendingBatch]:
        """Send and acknowledge everything."""
        sent: list[PendingBatch] = []
        while (piece := self.next(limit_bytes)) is not None:
            sent.append(piece)
        end = self.lane.target_next
        for piece in sent:
            assert self.answer(piece, K.APPENDED, end) == ()
            end += piece.record_count
        return sent


def decoded(piece: PendingBatch) -> list[Record]:
    view = memoryview(bytes(piece.payload))
    return decode_records(view, 0, read_header(view, 0), "t", 0)


def content(records: list[Record]) -> list[tuple[object, ...]]:
    return [(one.timestamp, one.key, one.value, one.headers) for one in records]


def test_a_small_batch_that_is_alone_leaves_unopened() -> None:
    played = Merging()
    (built,) = small(1)
    played.bring(built)
    piece = played.next()
    assert piece is not None
    assert (bytes(piece.payload)[61:], piece.merged_from, piece.lease) == (bytes(built)[61:], 0, played.shares[0])


def test_batches_that_wait_together_become_one() -> None:
    played = Merging()
    played.bring(joined(small(100)))
    played.bring(joined(small(50, first=100, each=2)))
    piece = played.next()
    assert piece is not None
    assert (piece.record_count, piece.merged_from, piece.sequence) == (200, 150, 0)
    assert [one.key for one in decoded(piece)] == [b"key-%d" % index for index in range(200)]
    assert read_header(piece.payload, 0).base_sequence == 0
    assert (played.leased, played.own_bytes(stuck=False)) == (0, len(piece.payload))
    assert played.lane.queued_bytes == played.lane.pieces.in_flight_bytes == len(piece.payload)
    assert played.answer(piece, K.APPENDED, 50) == ()
    assert (played.lane.queued_bytes, played.own_bytes(stuck=False), played.lane.source_next) == (0, 0, 200)
    assert played.lane.map is not None
    assert played.lane.map.runs == ((0, 50, 200),)


def test_a_merge_looks_at_no_more_pieces_than_a_moment_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebatching, "_MOST_PIECES", 20)
    played = Merging()
    for index in range(50):
        played.bring(joined(small(1, first=index)))
    assert [piece.record_count for piece in played.drain()] == [20, 20, 10]


def test_a_merged_batch_ends_where_the_target_has_no_more_room() -> None:
    played = Merging()
    built = small(10)
    played.bring(joined(built))
    before = played.lane.queued_bytes
    piece = played.next(len(built[0]) * 3)
    assert piece is not None
    assert len(piece.payload) <= len(built[0]) * 3
    assert 1 < piece.record_count < 10
    rest = played.lane.pieces.waiting[0]
    assert (rest.sequence, rest.source_base, rest.batches) == (piece.record_count,) * 2 + (10 - piece.record_count,)
    used = sum(len(one) for one in built[: piece.record_count])
    assert played.lane.queued_bytes == before - used + len(piece.payload)
    sent = [piece]
    while (piece := played.next(len(built[0]) * 3)) is not None:
        sent.append(piece)
    assert [one.sequence for one in sent] == [sum(one.record_count for one in sent[:at]) for at in range(len(sent))]
    assert sum(one.record_count for one in sent) == 10


def test_where_only_one_fits_each_batch_of_a_stretch_passes_alone() -> None:
    played = Merging()
    built = small(3)
    played.bring(joined(built))
    sent = played.drain(len(built[0]))
    assert [(one.record_count, one.merged_from, bytes(one.payload)[61:]) for one in sent] == [
        (1, 0, bytes(one)[61:]) for one in built
    ]
    assert (played.leased, played.lane.queued_bytes, played.lane.source_next) == (0, 0, 3)


def test_large_batches_pass_between_small_ones() -> None:
    played = Merging()
    large = batch(records(100, first=4))
    assert len(large) > 2000
    played.bring(joined([*small(4), large, *small(4, first=104)]))
    assert [(one.record_count, one.merged_from) for one in played.drain()] == [(4, 4), (100, 0), (4, 4)]


@pytest.mark.parametrize("codec", [NONE, LZ4])
def test_large_batches_are_merged_while_appends_queue_at_the_target(codec: int) -> None:
    played = Merging(msgspec.structs.replace(RULES, small=SmallBatches(200, 200), queued=QUEUED))
    large = [records(100, first=at) for at in (0, 100, 200)]
    played.bring(joined([*(batch(one, codec) for one in large), *small(4, first=300)]))
    sent = [played.next(), played.next(queues=True), played.next(queues=True)]
    assert [None if one is None else (one.record_count, one.merged_from) for one in sent] == [(100, 0), (204, 6), None]
    copied = [one for piece in sent if piece is not None for one in content(decoded(piece))]
    assert copied[:300] == [one for source in large for one in content(source)]


def test_a_lane_that_does_not_merge_sends_each_batch() -> None:
    played = Merging(None)
    played.bring(joined(small(4)))
    assert [one.record_count for one in played.drain()] == [1, 1, 1, 1]


def test_a_small_batch_waits_behind_a_crowd_until_an_answer_comes() -> None:
    played = Merging(RebatchRules(small=SmallBatches(2000, 2000), plain_records=0, compressed_batches=0, crowd=2))
    sent: list[PendingBatch] = []
    for index in range(5):
        played.bring(joined(small(1, first=index)))
        piece = played.next()
        sent += [] if piece is None else [piece]
    assert [one.record_count for one in sent] == [1, 1]
    played.answer(sent[0], K.APPENDED, 50)
    piece = played.next()
    assert piece is not None
    assert (piece.record_count, piece.merged_from) == (3, 3)


def test_a_merge_ends_before_a_run_that_is_not_durable() -> None:
    played = Merging()
    played.bring(joined(small(3)))
    view = memoryview(joined(small(3, first=10)))
    work = work_for(played.lane, view, 0, len(view), aborted=[], max_batch_bytes=1 << 20)
    take_in_stretches(played.lane, work, Shares())
    piece = played.next()
    assert piece is not None
    assert piece.record_count == 3
    assert played.next() is None
    played.durable()
    piece = played.next()
    assert piece is not None
    assert piece.record_count == 3


def test_what_was_sent_is_sent_again_byte_for_byte() -> None:
    played = Merging()
    played.bring(joined(small(3)))
    first = played.next()
    assert first is not None
    sent = bytes(first.payload)
    played.bring(joined(small(3, first=3)))
    assert isinstance(played.answers([first], K.UNKNOWN), Retry)
    assert played.lane.fetch_offset == 3
    played.lane.on_retry()
    played.bring(joined(small(5, first=3)))
    again = played.next()
    assert again is first
    assert bytes(again.payload) == sent
    assert played.own_bytes(stuck=True) == len(sent)
    played.answer(again, K.APPENDED, 50)
    following = played.next()
    assert following is not None
    assert (following.sequence, following.record_count) == (3, 5)


def test_a_rewind_drops_the_rest_of_a_stretch_and_fetches_it_again() -> None:
    played = Merging()
    built = small(10)
    played.bring(joined(built))
    piece = played.next(len(built[0]) * 4)
    assert piece is not None
    played.lane.rewind()
    assert (played.lane.fetch_offset, played.leased) == (piece.record_count, 0)
    played.bring(joined(small(3, first=piece.record_count)))
    following = played.next()
    assert following is not None
    assert following.sequence == piece.record_count


def refuse(played: Merging, refused: set[bytes], *, names: bool) -> list[int]:
    """Answer 87 for each batch with a refused record, until one is alone; return what was appended."""
    appended: list[int] = []
    for _ in range(100):
        piece = played.next()
        if piece is None:
            break
        keys = [one.key for one in decoded(piece)]
        bad = [index for index, key in enumerate(keys) if key in refused]
        if not bad:
            played.answer(piece, K.APPENDED, played.lane.target_next)
            appended.append(len(keys))
            continue
        (action,) = played.lane.on_outcome(piece, Outcome(K.REFUSED, -1, 87, "bad", bad[0] if names else -1))
        if isinstance(action, RetryRefused):
            assert keys == [next(iter(refused))]
            assert b"key-%d" % action.event.source_offset == keys[0]
            return appended
        assert isinstance(action, Split)
        header = read_header(piece.payload, 0)
        played.lane.on_split(piece, cut(memoryview(piece.payload), header, action.before, "t", 0))
        played.lane.on_retry()
    raise AssertionError("nobody named the record")


@pytest.mark.parametrize("names", [True, False])
@pytest.mark.parametrize("bad", [0, 7, 19])
def test_a_refused_record_of_a_merged_batch_is_singled_out(bad: int, names: bool) -> None:
    played = Merging()
    played.bring(joined(small(20)))
    appended = refuse(played, {b"key-%d" % bad}, names=names)
    assert sum(appended) == bad
    assert played.lane.source_next == bad
    played.lane.on_retry()
    rest = 0
    while sent := played.drain():  # one at a time until an answer
        rest += sum(one.record_count for one in sent)
    assert rest == 20 - bad
    assert (played.lane.source_next, played.leased, played.lane.queued_bytes) == (20, 0, 0)


def test_a_batch_of_the_source_is_not_cut_for_a_record() -> None:
    played = Merging()
    played.bring(joined(small(1, each=5)))
    piece = played.next()
    assert piece is not None
    (action,) = played.lane.on_outcome(piece, Outcome(K.REFUSED, -1, 87, "bad", 3))
    assert isinstance(action, RetryRefused)
    assert action.event.source_offset == 3


def test_markers_and_aborted_batches_between_small_ones_are_left_out() -> None:
    played = Merging()
    mine = batch(records(1, first=1), bits=TRANSACTIONAL, producer=(5, 1, 0))
    theirs = batch(records(1, first=2), bits=TRANSACTIONAL, producer=(9, 1, 0))
    made = [*small(1), mine, theirs, control(0, 3, 5), control(1, 4, 9), *small(2, first=5)]
    played.bring(joined(made), aborted=[(5, 1)])
    (piece,) = played.drain()
    assert (piece.record_count, piece.merged_from) == (4, 4)
    assert not read_header(piece.payload, 0).is_transactional
    assert played.lane.map is not None
    assert played.lane.map.runs == ((0, 50, 1), (2, 51, 1), (5, 52, 2))


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(lambda at: batch(records(2, first=at), bits=LOG_APPEND, max_timestamp=99), id="log append time"),
        pytest.param(lambda at: legacy(records(2, first=at), 1), id="format 1"),
        pytest.param(lambda at: batch(records(2, first=at), 3), id="compressed"),
        pytest.param(
            lambda at: batch([one for one in records(3, first=at) if one.offset != at + 1], last_offset_delta=2),
            id="hole",
        ),
    ],
)
def test_batches_of_every_kind_are_merged_with_their_neighbours(other: object) -> None:
    assert callable(other)
    played, plain = Merging(), Merging(None)
    made = joined([*small(2), other(2), *small(2, first=6)])
    for one in (played, plain):
        one.bring(made)
    (piece,) = played.drain()
    assert content(decoded(piece)) == [row for one in plain.drain() for row in content(decoded(one))]
    assert played.lane.map is not None
    assert plain.lane.map is not None
    assert played.lane.map.runs == plain.lane.map.runs
    assert played.lane.position == plain.lane.position


@settings(max_examples=20)
@given(
    st.lists(sources(codecs=st.integers(0, 4)), min_size=1, max_size=3),
    st.integers(80, 4000),
    st.integers(0, 3000),
    st.integers(0, 5),
    st.data(),
)
def test_however_batches_are_merged_the_copy_is_the_same(
    fetches: list[list[tuple[bytearray, list[Record]]]], limit: int, small_bytes: int, most: int, data: st.DataObject
) -> None:
    rules = RebatchRules(
        small=SmallBatches(small_bytes, small_bytes), plain_records=3 * most, compressed_batches=most, crowd=2**30
    )
    played, wanted, tail, end = Merging(rules), list[Record](), [], 50
    at = 0
    for fetch in fetches:
        known = [(built, rows) for built, rows in fetch if rows[0].offset >= at]
        if not known:
            continue
        played.bring(joined([built for built, _ in known]))
        wanted += [row for _, rows in known for row in rows]
        at = wanted[-1].offset + 1
        at = max(at, played.lane.fetch_offset)
        while data.draw(st.booleans()) and (piece := played.next(limit)) is not None:
            tail.append((piece, end))
            end += piece.record_count
    while (piece := played.next(limit)) is not None:
        tail.append((piece, end))
        end += piece.record_count
    assert [row for piece, _ in tail for row in content(decoded(piece))] == content(wanted)
    stored = played.lane.position
    for upto in range(len(tail) + 1):
        headers = tuple(as_tail(*row) for row in tail[:upto])
        found = read_tail(stored, Tail(log_start=0, end=headers[-1].next_offset if headers else 50, batches=headers))
        assert isinstance(found, ResumePoint)
        count = found.target_next - 50
        assert found.sequence == count
        following = wanted[count].offset if count < len(wanted) else wanted[-1].offset + 1
        assert (wanted[count - 1].offset if count else -1) < found.source_next <= following
        assert [source + index for source, _, length in found.copied for index in range(length)] == [
            row.offset for row in wanted[:count]
        ]
    for piece, base in tail:
        assert played.answer(piece, K.APPENDED, base) == ()
    assert played.lane.map is not None
    assert [source + index for source, _, length in played.lane.map.runs for index in range(length)] == [
        row.offset for row in wanted
    ]
    assert (played.leased, played.lane.queued_bytes, played.own_bytes(stuck=False)) == (0, 0, 0)


def test_the_rules_of_this_process() -> None:
    assert rebatch_rules() == (PURE if native.module is None else COMPILED)
    lane = Lane(FLOW, NAME, Limits())
    lane.own(start(), barrier_done=True)
    assert lane.limits.rebatch is None
    assert OutcomeKind.REFUSED is K.REFUSED


def test_plain_batches_behind_the_last_compressed_one_of_a_stretch_stay_plain() -> None:
    played = Merging()
    built = [*small(1, codec=LZ4), *small(60, first=1)]
    played.bring(joined(built))
    first, *others = played.drain(len(built[1]) * 4)
    assert first.codec == LZ4
    assert others
    assert {one.codec for one in others} == {NONE}


@pytest.mark.parametrize(("codec", "pays"), [(GZIP, False), (ZSTD, False), (LZ4, True)])
def test_batches_of_slow_codecs_that_are_not_tiny_pass_unopened(codec: int, pays: bool) -> None:
    played = Merging(COMPILED)
    built = [batch(noise(8, first=8 * index), codec) for index in range(6)]
    assert all(512 < len(one) - 61 < 4000 for one in built)
    played.bring(joined(built))
    sent = played.drain()
    assert (len(sent) < len(built)) is pays
    assert pays or [bytes(one.payload)[61:] for one in sent] == [bytes(one)[61:] for one in built]


def noise(count: int, *, first: int) -> list[Record]:
    """Return records of which a codec makes little smaller."""
    chance = Random(first)
    return [Record(first + step, 1_700_000_000_000, None, chance.randbytes(100) + b"." * 50) for step in range(count)]
