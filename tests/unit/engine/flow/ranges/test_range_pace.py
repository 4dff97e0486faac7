"""How fast lanes are read in ranges over paths of all kinds, in virtual time, and with how much memory."""

import pytest

from engine.flow.io import buffers
from engine.flow.ranges import batch_sizes
from tests.fakes.far_path import KIB, MIB, SCALE, FarCopy, Path

WINDOW = 150 * KIB
"""What one connection to a broker with its default socket buffers has under way."""
ALL_WINDOWS = 64 * WINDOW / 0.1
"""Bytes per second over 64 such connections at 100 ms."""


@pytest.fixture(autouse=True)
def _small_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_sizes, "_LEAST_BYTES", batch_sizes._LEAST_BYTES // SCALE)
    monkeypatch.setattr(buffers, "_HEADER_BYTES", buffers._HEADER_BYTES // SCALE)


async def copied(far: FarCopy, seconds: float, mib: int = 900, batch_kib: int = 56, spread: float = 0.05) -> float:
    """Return the bytes per second of a copy of `mib` MiB in all lanes together."""
    far.fill(mib * MIB // len(far.drivers), batch_kib * KIB, spread)
    return await far.run(seconds)


async def test_connections_with_windows_are_soon_all_used() -> None:
    far = FarCopy(Path(window=WINDOW))
    rate = await copied(far, 6.0)
    assert far.opened == 65
    assert rate > 0.5 * ALL_WINDOWS, "the start included"
    assert far.meter.vain_bytes < 0.1 * far.copied_bytes


async def test_a_rest_is_not_taken_for_a_short_path() -> None:
    """A rest of one batch comes within one round trip, a whole range within ten: its time is not that of a range."""
    far = FarCopy(Path(window=WINDOW))
    await copied(far, 3.0)
    path = far.seen
    assert path is not None
    assert path.trip_s == pytest.approx(0.1, rel=0.1)
    assert path.window.round_trip_s > 0.5
    assert path.window.goal_bytes > 48 * MIB


@pytest.mark.parametrize("lanes", [8])
async def test_lanes_share_connections_and_memory(lanes: int) -> None:
    far = FarCopy(Path(window=WINDOW), lanes=lanes)
    rate = await copied(far, 4.0)
    assert rate > 0.4 * ALL_WINDOWS
    assert far.most_used_bytes < 64 * MIB
    shares = [driver.lane.wire_bytes for driver in far.drivers]
    assert min(shares) > 0.3 * max(shares), "some began later"


async def test_a_path_without_windows_is_filled_by_large_ranges() -> None:
    far = FarCopy(Path(rate=100 * MIB))
    rate = await copied(far, 3.0)
    assert rate > 0.75 * 100 * MIB, "the start included"
    assert far.opened < 35
    assert far.meter.vain_bytes < 0.07 * far.copied_bytes


async def test_a_slow_path_has_no_long_queue_after_the_start() -> None:
    far = FarCopy(Path(rate=1 * MIB))
    rate = await copied(far, 40.0)
    assert rate > 0.8 * MIB
    path = far.seen
    assert path is not None
    assert path.window.in_flight_bytes < 8 * MIB
    assert far.most_used_bytes < 16 * MIB


@pytest.mark.parametrize(("batch_kib", "least"), [(200, 0.3), (1000, 0.06), (2000, 0.03)])
async def test_large_batches_of_unequal_size_are_read_in_ranges(batch_kib: int, least: float) -> None:
    """One connection alone brings a 64th of what all of them bring."""
    far = FarCopy(Path(window=WINDOW))
    assert await copied(far, 8.0, batch_kib=batch_kib) > least * ALL_WINDOWS
    assert far.most_used_bytes < 64 * MIB


@pytest.mark.parametrize("spread", [0.0, 0.3])
async def test_sizes_that_vary_cost_little(spread: float) -> None:
    far = FarCopy(Path(window=WINDOW))
    assert await copied(far, 3.0, spread=spread) > 0.35 * ALL_WINDOWS
    assert far.meter.vain_bytes < 0.12 * far.copied_bytes


async def test_batches_that_grow_suddenly_stay_within_the_memory() -> None:
    """Each of 64 ranges on its way would bring a batch of 1.5 MiB instead of its 0.75 MiB."""
    far = FarCopy(Path(window=WINDOW))
    far.fill(200 * MIB, 56 * KIB)
    far.fill(400 * MIB, 1500 * KIB)
    await far.run(14.0)
    assert far.copied_bytes > 220 * MIB
    assert far.most_used_bytes < 64 * MIB
