"""An answer that is much larger than asked for is received only if it fits."""

import pytest

from engine.flow.io.buffers import BufferLease, BufferPool
from engine.flow.ports.ports import Leader, NoRoom
from engine.flow.ranges.batch_sizes import BatchSizes
from engine.flow.ranges.range_plan import Range, RangePlan
from engine.flow.ranges.range_room import RangeRoom

SIZES = BatchSizes(batch_bytes=100.0, bytes_per_offset=100.0, alike=1, spread_bytes=0, joint=0)


class Asked:
    """Two ranges of 800 bytes that were asked for, in a budget of 4,000 bytes of which 1,000 are left to others."""

    def __init__(self) -> None:
        self.pool = BufferPool(4000, 1000)
        self.plan = RangePlan(Leader(1, 4, "id"), 0, 100, SIZES, 800)
        self.rooms: list[RangeRoom] = []
        self.leases: list[BufferLease] = []
        for _ in range(2):
            one = self.plan.extend()
            assert one is not None
            self.rooms.append(self._room(one))

    def _room(self, one: Range) -> RangeRoom:
        lease = self.pool.try_lease(one.max_bytes, whole=False)
        assert lease is not None
        self.leases.append(lease)
        return RangeRoom(lease, self.pool, self.plan, one)


def test_an_answer_as_expected_gets_its_memory() -> None:
    asked = Asked()
    assert len(asked.rooms[1].room(820)) == 820
    assert asked.leases[1].began_s is not None
    assert asked.rooms[1].refused_bytes == 0


def test_a_larger_answer_gets_memory_while_there_is_some() -> None:
    assert len(Asked().rooms[1].room(2000)) == 2000


def test_a_larger_answer_is_given_up_if_it_does_not_fit() -> None:
    asked = Asked()
    with pytest.raises(NoRoom):
        asked.rooms[1].room(2500)
    assert asked.rooms[1].refused_bytes == 2500
    assert asked.pool.used_bytes == 1600


def test_the_range_that_is_next_may_use_what_is_left_to_others() -> None:
    assert len(Asked().rooms[0].room(2500)) == 2500
