"""Maps for tests: runs from gaps and counts, and the naive model, one entry per record."""

from hypothesis import strategies as st

from engine.core.offset_map.offset_map import MapBlock, MapHead, MapRun, MapStart, OffsetMap

START = MapStart(0, 0, first=True)


@st.composite
def run_lists(draw: st.DrawFn, most: int = 24) -> tuple[MapRun, ...]:
    """Ascending runs, none of which continues the one before."""
    runs: list[MapRun] = []
    source, target = draw(st.integers(0, 3)), draw(st.integers(0, 3))
    for _ in range(draw(st.integers(0, most))):
        count = draw(st.integers(1, 5))
        runs.append(MapRun(source, target, count))
        gaps = draw(st.tuples(st.integers(0, 4), st.integers(0, 4)).filter(any))
        source, target = source + count + gaps[0], target + count + gaps[1]
    return tuple(runs)


def records_of(runs: tuple[MapRun, ...]) -> dict[int, int]:
    """The naive model: target offset by source offset."""
    return {run.source + at: run.target + at for run in runs for at in range(run.count)}


def map_of(
    runs: tuple[MapRun, ...],
    source_next: int,
    target_next: int,
    *,
    per_block: int = 4,
    start: MapStart = START,
    generation: int = 1,
) -> OffsetMap:
    """Read a map as it lies in full blocks of some size and the head behind them."""
    full = max(0, len(runs) - 1) // per_block
    known = OffsetMap()
    for number in range(full):
        block = MapBlock(number, generation, runs[number * per_block : (number + 1) * per_block])
        known.add_block(block, place=100 + number)
    known.follow(MapHead(generation, full, source_next, target_next, runs[full * per_block :]), start)
    return known
