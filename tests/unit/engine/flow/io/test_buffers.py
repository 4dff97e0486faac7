"""The memory budget: never exceeded, first come first served, nothing lost by a cancelled wait."""

import asyncio
from random import Random

import pytest

from engine.flow.io.buffers import BUFFER_BYTES, BufferLease, BufferPool
from tests.fakes.brokers import turns

BUFFER = 300 * 1024


def pool_of(buffers: int) -> BufferPool:
    return BufferPool(buffers * BUFFER, BUFFER)


async def test_a_lease_waits_until_a_whole_buffer_fits() -> None:
    pool = pool_of(2)
    leases = [await pool.lease(), await pool.lease()]
    assert pool.used_bytes == pool.budget_bytes
    async with asyncio.TaskGroup() as group:
        third = group.create_task(pool.lease())
        await turns()
        assert not third.done()
        leases[0].release()
    assert pool.used_bytes == pool.budget_bytes


async def test_waiters_are_served_in_their_order_and_a_newcomer_does_not_pass() -> None:
    pool = pool_of(1)
    first = await pool.lease()
    served: list[str] = []

    async def take(name: str) -> BufferLease:
        lease = await pool.lease()
        served.append(name)
        return lease

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(take("a")), group.create_task(take("b"))]
        await turns()
        first.release()
        tasks.append(group.create_task(take("newcomer")))
        for task in tasks:
            (await task).release()
    assert served == ["a", "b", "newcomer"]
    assert pool.used_bytes == 0


async def test_all_waiters_that_fit_are_let_in_at_once() -> None:
    pool = pool_of(3)
    large = await pool.lease()
    large.room(3 * BUFFER)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(pool.lease()) for _ in range(3)]
        await turns()
        large.release()
        await turns()
        assert [task.done() for task in tasks] == [True] * 3
    assert pool.used_bytes == pool.budget_bytes


@pytest.mark.parametrize("woken", [False, True])
async def test_a_cancelled_wait_takes_nothing_from_the_next_in_line(woken: bool) -> None:
    pool = pool_of(1)
    first = await pool.lease()
    async with asyncio.TaskGroup() as group:
        cancelled, patient = group.create_task(pool.lease()), group.create_task(pool.lease())
        await turns()
        if woken:
            first.release()
        cancelled.cancel()
        await turns()
        assert patient.done() is woken
        if not woken:
            first.release()
    patient.result().release()
    assert pool.used_bytes == 0


async def test_a_small_answer_gives_most_of_its_buffer_back_at_once() -> None:
    pool = pool_of(1)
    lease = await pool.lease()
    view = lease.room(1000)
    assert (len(view), pool.used_bytes) == (1000, 1000)
    view[0] = 1
    lease.release()
    assert pool.used_bytes == 0


async def test_one_batch_larger_than_a_buffer_may_exceed_the_budget() -> None:
    pool = pool_of(1)
    lease = await pool.lease()
    assert len(lease.room(5 * BUFFER)) == 5 * BUFFER == pool.used_bytes
    lease.release()
    assert pool.used_bytes == 0


async def test_memory_goes_back_with_the_last_share_and_is_used_again() -> None:
    pool = pool_of(2)
    lease = await pool.lease()
    memory = lease.room(BUFFER).obj
    assert lease.retain() is lease
    lease.release()
    assert pool.used_bytes == BUFFER
    lease.release()
    again = await pool.lease()
    assert again.room(BUFFER).obj is memory
    again.release()


async def test_a_lease_that_was_never_filled_gives_its_budget_back() -> None:
    pool = pool_of(1)
    (await pool.lease()).release()
    assert pool.used_bytes == 0


async def filled(pool: BufferPool, count: int) -> list[BufferLease]:
    leases = [await pool.lease() for _ in range(count)]
    for lease in leases:
        lease.room(BUFFER)
    return leases


async def test_buffers_that_nobody_needed_since_the_last_look_are_let_go() -> None:
    pool = pool_of(4)
    for lease in await filled(pool, 4):
        lease.release()
    pool.shed()
    assert pool.free_buffers == 4, "they were needed since the pool was made"
    for lease in await filled(pool, 3):
        lease.release()
    pool.shed()
    assert pool.free_buffers == 3, "one was not"
    pool.shed()
    assert pool.free_buffers == 0
    for lease in await filled(pool, 4):
        lease.release()
    assert pool.free_buffers == 4, "and they come again"


async def test_batches_in_memory_of_their_own_hold_fetches_back_as_receive_buffers_do() -> None:
    pool = pool_of(2)
    first = await pool.lease()
    own = first.own(2 * BUFFER, stuck=False)
    assert (pool.used_bytes, pool.is_short) == (3 * BUFFER, False)
    first.release()
    async with asyncio.TaskGroup() as group:
        second = group.create_task(pool.lease())
        await turns()
        assert (second.done(), pool.is_short) == (False, True)
        own.release()
    second.result().release()
    assert pool.used_bytes == 0


async def test_stuck_batches_leave_a_quarter_of_the_budget_to_receive() -> None:
    pool = pool_of(8)
    first = await pool.lease()
    stuck = first.own(100 * BUFFER, stuck=True)
    second = await pool.lease()
    async with asyncio.TaskGroup() as group:
        third = group.create_task(pool.lease())
        await turns()
        assert not third.done()
        stuck.release()
    assert (pool.stuck_bytes, pool.used_bytes) == (0, 3 * BUFFER)
    for lease in (first, second, third.result()):
        lease.release()


async def test_free_buffers_make_room_for_batches_in_memory_of_their_own() -> None:
    pool = pool_of(4)
    for lease in await filled(pool, 4):
        lease.release()
    assert pool.free_buffers == 4
    first = await pool.lease()
    own = first.own(3 * BUFFER, stuck=False)
    assert pool.free_buffers == 0, "in use and free ones together stay within the budget"
    own.release()
    first.release()


def test_a_budget_below_one_buffer_is_one_buffer() -> None:
    assert BufferPool(1, BUFFER).budget_bytes == BUFFER


async def test_an_answer_as_large_as_was_asked_for_fits_into_a_buffer_with_its_header() -> None:
    pool = BufferPool(4 * BUFFER_BYTES)
    lease = await pool.lease()
    lease.room(lease.answer_bytes + 60_000)
    assert pool.used_bytes == BUFFER_BYTES
    lease.release()
    assert pool.free_buffers == 1, "it is used again"


async def test_a_large_buffer_is_used_again_and_its_bytes_count() -> None:
    pool = BufferPool(8 * BUFFER_BYTES)
    held = []
    for _ in range(2):
        lease = await pool.lease()
        lease.widen()
        assert lease.answer_bytes == 2 * BUFFER_BYTES - 64 * 1024
        held.append(lease.room(lease.answer_bytes + 60_000).obj)
        assert pool.used_bytes == 2 * BUFFER_BYTES
        lease.release()
        assert (pool.used_bytes, pool.free_buffers) == (0, 1)
    assert held[0] is held[1]


async def test_a_large_buffer_for_a_small_answer_is_not_taken() -> None:
    pool = BufferPool(8 * BUFFER_BYTES)
    lease = await pool.lease()
    lease.widen()
    lease.room(BUFFER_BYTES // 2)
    assert pool.used_bytes == BUFFER_BYTES
    lease.release()


async def test_no_lease_is_widened_beyond_half_of_the_budget() -> None:
    pool = BufferPool(8 * BUFFER_BYTES)
    leases = [await pool.lease() for _ in range(4)]
    leases[0].widen()
    assert pool.used_bytes == 4 * BUFFER_BYTES
    leases[3].release()
    leases[0].widen()
    assert pool.used_bytes == 4 * BUFFER_BYTES
    for lease in leases[:3]:
        lease.release()
    assert pool.used_bytes == 0


async def test_an_answer_that_is_larger_than_what_was_reserved_has_its_own_memory() -> None:
    pool = BufferPool(8 * BUFFER_BYTES)
    lease = await pool.lease()
    assert len(lease.room(BUFFER_BYTES + 1)) == BUFFER_BYTES + 1
    assert pool.used_bytes == BUFFER_BYTES + 1
    lease.release()
    assert (pool.used_bytes, pool.free_buffers) == (0, 0)


async def test_free_large_buffers_make_room_and_are_shed_as_others_are() -> None:
    pool = BufferPool(8 * BUFFER_BYTES)
    leases = [await pool.lease() for _ in range(2)]
    for lease in leases:
        lease.widen()
        lease.room(2 * BUFFER_BYTES)
    for lease in leases:
        lease.release()
    assert pool.free_buffers == 2
    own = pool.own(5 * BUFFER_BYTES, stuck=False)
    assert pool.free_buffers == 1, "in use and free ones together stay within the budget"
    own.release()
    pool.shed()
    pool.shed()
    assert pool.free_buffers == 0


async def test_an_answer_that_would_waste_a_buffer_has_its_own_memory_while_memory_is_short() -> None:
    pool = BufferPool(8 * BUFFER_BYTES)
    leases = [await pool.lease() for _ in range(4)]
    leases[0].room(BUFFER_BYTES // 4)
    assert pool.used_bytes == 4 * BUFFER_BYTES, "there is plenty"
    leases.append(await pool.lease())
    leases[1].room(BUFFER_BYTES // 4)
    assert pool.used_bytes == 4 * BUFFER_BYTES + BUFFER_BYTES // 4
    leases.append(await pool.lease())
    leases[2].room(BUFFER_BYTES // 2 + 1)
    assert pool.used_bytes == 5 * BUFFER_BYTES + BUFFER_BYTES // 4, "it fills most of its buffer"
    for lease in leases:
        lease.release()
    assert pool.used_bytes == 0


class Memory:
    """The bytes that a pool really has: in leases with their memory, and in free buffers."""

    def __init__(self, pool: BufferPool) -> None:
        self.pool = pool
        self.held: list[tuple[BufferLease, int]] = []

    @property
    def bytes(self) -> int:
        return sum(size for _, size in self.held) + self.pool._free.bytes + self.pool._large.bytes

    async def receive(self, size: int, *, wide: bool = False) -> None:
        lease = await self.pool.lease()
        if wide:
            lease.widen()
        lease.room(size)
        self.held.append((lease, len(lease._buffer or b"")))

    def release(self, count: int) -> None:
        for lease, _ in self.held[:count]:
            lease.release()
        del self.held[:count]


@pytest.mark.parametrize("seed", range(20))
async def test_free_buffers_and_received_answers_of_any_size_stay_within_the_budget(seed: int) -> None:
    random = Random(seed)
    pool = pool_of(16)
    memory = Memory(pool)
    for _ in range(300):
        if pool.is_spent or random.random() < 0.4:
            memory.release(random.randint(0, len(memory.held)))
        else:
            wide = random.random() < 0.4
            await memory.receive(random.randint(1, BUFFER * (2 if wide and not pool.is_half_used else 1)), wide=wide)
        assert memory.bytes <= pool.budget_bytes
    memory.release(len(memory.held))
    assert pool.used_bytes == 0


async def test_large_buffers_are_used_again_although_all_memory_was_in_others() -> None:
    pool = pool_of(16)
    memory = Memory(pool)
    for _ in range(16):
        await memory.receive(BUFFER)
    memory.release(16)
    seen = set()
    for _ in range(50):
        await memory.receive(2 * BUFFER, wide=True)
        seen.add(id(memory.held[0][0]._buffer))
        memory.release(1)
    assert len(seen) == 1


async def test_a_wait_that_is_cancelled_while_memory_comes_back_counts_nothing() -> None:
    pool = pool_of(1)
    first = await pool.lease()
    waiting = asyncio.create_task(pool.lease())
    await turns()
    waiting.cancel()
    first.release()  # before the task knows that it was cancelled
    await turns()
    assert waiting.cancelled()
    assert pool.used_bytes == 0
