"""What a plan asks for, delivers, and has fetched in vain."""

from engine.core.lane.pending_batch import BufferShare
from engine.flow.ports.ports import Leader, Slice
from engine.flow.ranges.batch_sizes import BatchSizes
from engine.flow.ranges.range_plan import Range, RangePlan
from engine.wire.batch import read_header
from policies.model import TopicPartition
from tests.fakes.source_log import SourceLog

PARTITION = TopicPartition("t", 0)


class Share:
    """A share of a buffer that counts how often it was taken."""

    def __init__(self) -> None:
        self.shares = 0

    def own(self, size: int, *, stuck: bool) -> BufferShare:
        raise AssertionError("nothing is copied")

    def retain(self) -> "Share":
        self.shares += 1
        return self

    def release(self) -> None:
        self.shares -= 1


class Planned:
    """A plan over a log of batches with three offsets each, from offset 0 on."""

    def __init__(self, count: int = 100, *, offsets: int = 3) -> None:
        self.log = SourceLog()
        for _ in range(count):
            self.log.data(offsets)
        data = self.log.fetch(0, 1000)[0]
        self.batch_bytes = read_header(memoryview(data), 0).size_bytes
        sizes = BatchSizes(
            batch_bytes=self.batch_bytes,
            bytes_per_offset=self.batch_bytes / 3,
            alike=0,
            spread_bytes=0,
            joint=0,
        )
        self.plan = RangePlan(Leader(1, 4, "id"), 0, self.log.end, sizes, 10 * self.batch_bytes)
        self.share = Share()

    def ask(self) -> Range:
        one = self.plan.rest or self.plan.extend()
        assert one is not None
        self.plan.asked(one)
        return one

    def answer(self, one: Range, *, batches: int | None = None) -> bool:
        data = self.log.fetch(one.start, 1000)[0]
        size = one.max_bytes
        if batches is not None:
            size = 0
            for _ in range(batches):
                size += read_header(memoryview(data), size).size_bytes
        data = data[:size]
        found = Slice(PARTITION, 0, len(data), self.log.end, self.log.end, 0, [])
        return self.plan.arrive(one, found, memoryview(data), self.share)


def test_what_two_ranges_bring_is_taken_in_once_and_counted() -> None:
    planned = Planned()
    plan = planned.plan
    first, second = planned.ask(), planned.ask()
    assert planned.answer(first)
    assert planned.answer(second)
    cut = plan.take_vain()
    assert 0 < cut < 2 * planned.batch_bytes, "the last batch of each was not whole"
    ready = plan.ready
    assert ready is first
    assert plan.trim(first) == first.found
    plan.deliver()
    if second.begins < plan.delivered:
        found = plan.trim(second)
        assert found is not None
        assert second.found is not None
        assert found.start > second.found.start
        assert plan.take_vain() == found.start - second.found.start


def test_a_hole_between_two_answers_is_asked_for_and_says_nothing_about_sizes() -> None:
    planned = Planned()
    plan = planned.plan
    first, second = planned.ask(), planned.ask()
    assert planned.answer(second)
    assert planned.answer(first, batches=first.stop // 3 - 2)
    rest = plan.rest
    assert rest is not None
    assert rest.is_rest
    assert (rest.start, rest.stop) == (first.covers, second.first)
    before = plan.whole_bytes
    assert rest.max_bytes < 1.5 * (rest.stop - rest.start) / 3 * planned.batch_bytes
    plan.asked(rest)
    assert planned.answer(rest, batches=1)
    assert plan.whole_bytes == before


def test_what_a_dropped_plan_held_was_fetched_in_vain() -> None:
    planned = Planned()
    planned.ask()
    second = planned.ask()
    assert planned.answer(second)
    planned.plan.drop()
    assert planned.plan.take_vain() == second.max_bytes
    assert planned.plan.take_vain() == 0
    assert planned.share.shares == 0


def test_a_plan_ends_if_a_full_answer_has_few_of_the_offsets() -> None:
    """Records have grown: all other ranges would bring one batch of many."""
    planned = Planned()
    one = planned.ask()
    assert planned.answer(one, batches=3), "an answer that is not full says nothing"
    two = planned.ask()
    while two.is_rest:
        assert planned.answer(two)
        two = planned.ask()
    two.stop = two.start + 1000
    assert not planned.answer(two)


def test_an_answer_without_memory_is_asked_for_again_with_its_size() -> None:
    planned = Planned()
    one = planned.ask()
    planned.plan.too_large(one, 12_345)
    assert planned.plan.held_bytes == 0
    assert planned.plan.rest is one
    assert one.max_bytes == 12_345
