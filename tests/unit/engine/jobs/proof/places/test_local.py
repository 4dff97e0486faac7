"""A proof in this process: hashes, joins by an index, bounds, and progress."""

import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from itertools import combinations

import pytest

from engine.jobs.proof import rules
from engine.jobs.proof.model import ProofOptions, TooMuch
from engine.jobs.proof.places.local import LocalPlace, digest64, headers_blob
from engine.jobs.proof.places.logs import Batches, Log
from engine.jobs.proof.plan import MapColumns, ProofLane, piece_of
from engine.jobs.proof.waves import Prover
from engine.wire.header import BatchHeader
from engine.wire.record import Headers, Record
from policies.model import FlowName, LaneName, TopicPartition

COUNT, AT_ONCE, BATCH_BYTES = 50, 20, 1_000
LANE = ProofLane(
    name=LaneName(TopicPartition("7", 0), TopicPartition("A.7", 0)),
    runs=MapColumns([0], [0], [COUNT]),
    source_from=0,
    source_to=COUNT,
    target_from=0,
    target_to=COUNT,
    source_bounds=(0, COUNT),
    target_bounds=(0, COUNT),
)


async def answers(_partition: TopicPartition, stretch: tuple[int, int]) -> AsyncIterator[tuple[int, Batches]]:
    for first in range(*stretch, AT_ONCE):
        last = min(first + AT_ONCE, stretch[1])
        header = BatchHeader(first, BATCH_BYTES - 12, 0, 2, 0, 0, last - first - 1, 0, 0, -1, -1, -1, last - first)
        yield last, [(header, [Record(n, n, b"%d" % n, None) for n in range(first, last)])]


@asynccontextmanager
async def opened() -> AsyncIterator[tuple[Log, Log]]:
    yield answers, answers


@pytest.fixture
def place() -> Iterator[LocalPlace]:
    with closing(LocalPlace(opened, [LANE], sys.maxsize)) as made:
        yield made


def prover(place: LocalPlace, told: list[int]) -> Prover[str]:
    return Prover(place, ProofOptions(flow=FlowName("A", "B")), [LANE], lambda done, _found: told.append(done))


def test_how_far_it_is_is_told_with_each_answer(place: LocalPlace) -> None:
    told = list[int]()
    proof = prover(place, told)
    proof.run()
    assert told == [20, 40, 50, 50]
    assert (proof.tallies[0].records, proof.tallies[0].bad_from, proof.cores) == (COUNT, -1, 1)


def test_it_reads_no_more_than_it_may() -> None:
    with closing(LocalPlace(opened, [LANE], 6 * BATCH_BYTES)) as place:
        prover(place, []).run()
    with closing(LocalPlace(opened, [LANE], 6 * BATCH_BYTES - 1)) as place, pytest.raises(TooMuch):
        prover(place, []).run()


@pytest.mark.parametrize(("text", "by"), [("placed", "bucket=?"), ("paired", "at=?")])
def test_joins_find_their_rows_by_an_index(place: LocalPlace, text: str, by: str) -> None:
    """Each of 50,000 records held against each of 50,000 others would take an hour."""
    source, target = place.records([piece_of(0, LANE, 0, COUNT)], {0: (COUNT, COUNT)})
    tables = {"source": source, "target": target, "runs": place.table(rules.RUNS, [(0, 0, 0, COUNT, 0)])}
    asked = {"placed": rules.placed, "paired": rules.paired}[text]()
    place.query(asked, **tables)
    plan = [row["detail"] for row in place._sql.execute(f"EXPLAIN QUERY PLAN {asked.format(**tables)}")]
    assert any(by in line for line in plan), plan


ALONE: list[tuple[int | bytes | None, ...]] = [(None,), (b"",), (0,), (b"0",), (b"i0;",), (None, b""), (b"", None)]


@pytest.mark.parametrize(
    "values",
    [*combinations(ALONE, 2), ((b"ab", b"c"), (b"a", b"bc")), ((1, None), (1, b"n;")), ((-1,), (1,))],
)
def test_what_differs_hashes_to_something_else(
    values: tuple[tuple[int | bytes | None, ...], tuple[int | bytes | None, ...]],
) -> None:
    one, other = (digest64(*some) for some in values)
    assert one != other
    assert all(-(2**63) <= number < 2**63 for number in (one, other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((), ((b"", None),)),
        (((b"a", None),), ((b"a", b""),)),
        (((b"a", b"1"), (b"b", b"2")), ((b"b", b"2"), (b"a", b"1"))),
        (((b"a", b"1 1 b 1 2"),), ((b"a", b"1"), (b"b", b"2"))),
    ],
)
def test_headers_that_differ_are_other_bytes(one: Headers, other: Headers) -> None:
    assert headers_blob(one) != headers_blob(other)


def test_names_of_headers_are_compared_as_java_decodes_them() -> None:
    assert headers_blob(((b"\xff", b"1"),)) == headers_blob((("\ufffd".encode(), b"1"),))
