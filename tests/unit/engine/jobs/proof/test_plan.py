"""Lanes cut into pieces, pieces gathered into waves, runs arranged for a lookup: every offset once, found again."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from engine.jobs.proof.plan import MapColumns, ProofLane, buckets, expected, piece_of, pieces, waves
from policies.model import LaneName, TopicPartition


def lane(runs: MapColumns, source_to: int, target_to: int, *, compacts: bool = False, number: int = 0) -> ProofLane:
    return ProofLane(
        name=LaneName(TopicPartition("t", number), TopicPartition("A.t", number)),
        runs=runs,
        source_from=0,
        source_to=source_to,
        target_from=0,
        target_to=target_to,
        source_bounds=(0, source_to),
        target_bounds=(0, target_to),
        target_compacts=compacts,
    )


@st.composite
def any_runs(draw: st.DrawFn) -> tuple[MapColumns, dict[int, int]]:
    """Some runs, and the same as a table: source offset by target offset."""
    source = target = 0
    rows: list[tuple[int, int, int]] = []
    gaps = st.integers(0, 50)
    for _ in range(draw(st.integers(0, 12))):
        source, target = source + draw(gaps), target + draw(gaps)
        count = draw(st.integers(1, 60))
        rows.append((source, target, count))
        source, target = source + count, target + count
    columns = list(zip(*rows, strict=True)) if rows else [(), (), ()]
    table = {to + n: at + n for at, to, count in rows for n in range(count)}
    return MapColumns(*columns), table


@given(any_runs(), st.integers(0, 800), st.integers(0, 800))
def test_runs_answer_as_a_table_does(made: tuple[MapColumns, dict[int, int]], offset: int, other: int) -> None:
    runs, table = made
    back = {source: target for target, source in table.items()}
    assert runs.target_of(offset, -7) == min((to for at, to in back.items() if at >= offset), default=-7)
    assert runs.source_of(offset, -7) == min((at for to, at in table.items() if to >= offset), default=-7)
    assert runs.behind(offset, -7) == max((to + 1 for at, to in back.items() if at < offset), default=-7)
    assert runs.source_before(offset, -7) == max((at for to, at in table.items() if to < offset), default=-7)
    assert runs.below([offset, other]).tolist() == [sum(at < end for at in back) for end in (offset, other)]
    low, high = sorted((offset, other))
    part = runs.clip(low, high)
    assert part.records == sum(low <= at < high for at in back)
    assert all(part.target_of(at, -1) == to for at, to in back.items() if low <= at < high)


@given(any_runs(), st.integers(1, 200), st.integers(1, 5))
def test_pieces_cover_a_lane_once_with_their_runs(
    made: tuple[MapColumns, dict[int, int]], most_records: int, most_runs: int
) -> None:
    runs, table = made
    end, target_end = max(table.values(), default=0) + 3, max(table, default=0) + 3
    found = list(pieces(0, lane(runs, end, target_end), most_records, most_runs))
    assert [found[0].source_from, found[-1].source_to] == [0, end]
    assert [found[0].target_from, found[-1].target_to] == [0, target_end]
    for one, following in pairwise(found):
        assert (one.source_to, one.target_to) == (following.source_from, following.target_from)
    for one in found:
        assert 0 < one.offsets <= most_records
        assert len(one.runs) <= most_runs
        own = {to: at for to, at in table.items() if one.source_from <= at < one.source_to}
        assert one.runs.records == len(own)
        assert all(one.target_from <= to < one.target_to for to in own)


def test_a_compacted_lane_stays_whole() -> None:
    found = list(pieces(3, lane(MapColumns([0], [0], [1000]), 1000, 1000, compacts=True), 10, 1))
    assert [(one.lane, one.source_from, one.source_to) for one in found] == [(3, 0, 1000)]


@given(any_runs())
def test_a_bucket_finds_the_run_of_every_record(made: tuple[MapColumns, dict[int, int]]) -> None:
    runs, table = made
    (one,) = pieces(5, lane(runs, 2000, 2000), 5000, 5000)
    ((number, base, width),), rows = buckets([one])
    assert number == 5
    assert len(rows["lane"]) <= max(0, 2 * len(runs))
    for target in range(2000):
        found = [
            target + rows["shift"][n]
            for n in range(len(rows["lane"]))
            if rows["bucket"][n] == (target - base) // width and rows["first"][n] <= target < rows["behind"][n]
        ]
        assert found == ([table[target]] if target in table else [])


def test_waves_hold_one_piece_of_a_lane_and_keep_to_their_limits() -> None:
    lanes = [
        lane(MapColumns([0], [0], [count]), count, count, number=n) for n, count in enumerate((250, 0, 100, 30, 30))
    ]
    found = list(waves(lanes, 100, 10, 3))
    assert [[(one.lane, one.source_from, one.source_to) for one in wave] for wave in found] == [
        [(0, 0, 100)],
        [(2, 0, 100)],
        [(3, 0, 30), (4, 0, 30)],
        [(0, 100, 200)],
        [(0, 200, 250)],
    ]


def test_waves_end_at_the_limits_of_runs_and_lanes() -> None:
    broken = MapColumns(range(0, 40, 2), range(20), [1] * 20)
    lanes = [lane(broken, 40, 20, number=n) for n in range(4)]
    assert [len(wave) for wave in waves(lanes, 1000, 45, 9)] == [2, 2]
    assert [len(wave) for wave in waves(lanes, 1000, 900, 3)] == [3, 1]


@given(any_runs(), st.integers(0, 400), st.integers(1, 400), st.integers(1, 90))
def test_ranges_hold_what_the_map_knows(
    made: tuple[MapColumns, dict[int, int]], first: int, size: int, step: int
) -> None:
    runs, table = made
    piece = piece_of(0, lane(runs, 2000, 2000), first, first + size)
    starts = range(first, first + size, step)
    wanted = [sum(at <= one < min(at + step, first + size) for one in table.values()) for at in starts]
    assert expected(piece, step) == wanted
