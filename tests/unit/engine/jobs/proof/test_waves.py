"""A proof of logs that are lists, with Spark and without: each fault on a lane of its own, all in one run."""

import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from engine.jobs.proof.align import FoundDifference
from engine.jobs.proof.model import DifferenceKind, ProofOptions
from engine.jobs.proof.places.local import LocalPlace
from engine.jobs.proof.places.logs import Batches, Log
from engine.jobs.proof.plan import MapColumns, ProofLane
from engine.jobs.proof.waves import Prover
from engine.jobs.runtime.core_budget import CoreBudget
from engine.wire.header import LOG_APPEND_BIT, BatchHeader
from engine.wire.record import Record
from policies.model import FlowName, LaneName, TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


# PySpark leaves the socket of each collected result to the collector of garbage.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")

COUNT, BY, AT = 60, 1000, 33
"""Records of a source, how much higher their copies lie, and the one that a fault is planted on."""
HEADERS = [("a", b"1"), ("a", None), ("b", b"")]


class Kept(NamedTuple):
    """A record in a log, as Spark's source has it but for topic and partition."""

    offset: int
    key: bytes | None
    value: bytes | None
    time: datetime
    kind: int = 0
    headers: list[tuple[str, bytes | None]] | None = None


def record(number: int) -> Kept:
    time = datetime(2026, 5, 1, tzinfo=UTC) + timedelta(milliseconds=number)
    return Kept(number, b"k%d" % number, b"v%d" % number, time, headers=HEADERS if number % 3 == 0 else None)


SOURCE = [record(n) for n in range(COUNT)]


def in_place(records: list[Kept]) -> list[Kept]:
    return [one._replace(offset=one.offset + BY) for one in records]


def appended(records: list[Kept]) -> list[Kept]:
    """Copy as by a producer: places follow one another."""
    return [one._replace(offset=BY + n) for n, one in enumerate(records)]


def altered(**fields: Any) -> Callable[[list[Kept]], list[Kept]]:
    return lambda records: [one._replace(**fields) if one.offset == AT else one for one in records]


def without(*offsets: int) -> list[Kept]:
    return [one for one in SOURCE if one.offset not in offsets]


SWAPPED = [*SOURCE[:AT], SOURCE[AT + 1]._replace(offset=AT), SOURCE[AT]._replace(offset=AT + 1), *SOURCE[AT + 2 :]]
DOUBLED = [*SOURCE[: AT + 1], SOURCE[AT], *SOURCE[AT + 1 :]]
Expected = set[tuple[DifferenceKind, int, int]]
CASES: dict[str, tuple[list[Kept], Expected]] = {
    "good": (in_place(SOURCE), set()),
    "deleted in place": (in_place(without(AT)), {(DifferenceKind.MISSING, AT, BY + AT)}),
    "deleted": (appended(without(AT)), {(DifferenceKind.MISSING, AT, BY + AT)}),
    "first and last deleted": (
        in_place(without(0, COUNT - 1)),
        {(DifferenceKind.MISSING, 0, BY), (DifferenceKind.MISSING, COUNT - 1, BY + COUNT - 1)},
    ),
    "all deleted": ([], {(DifferenceKind.MISSING, n, BY + n) for n in range(COUNT)}),
    "doubled": (appended(DOUBLED), {(DifferenceKind.EXTRA, AT + 1, BY + AT + 1)}),
    "swapped": (in_place(SWAPPED), {(DifferenceKind.REORDERED, AT, BY + AT + 1)}),
    "key": (in_place(altered(key=b"k32")(SOURCE)), {(DifferenceKind.ALTERED, AT, BY + AT)}),
    "value by a bit": (in_place(altered(value=b"w33")(SOURCE)), {(DifferenceKind.ALTERED, AT, BY + AT)}),
    "null made empty": (in_place(altered(value=b"")(SOURCE)), {(DifferenceKind.ALTERED, AT, BY + AT)}),
    "header key": (
        in_place(altered(headers=[("A", b"1"), *HEADERS[1:]])(SOURCE)),
        {(DifferenceKind.ALTERED, AT, BY + AT)},
    ),
    "header value null made empty": (
        in_place(altered(headers=[HEADERS[0], ("a", b""), HEADERS[2]])(SOURCE)),
        {(DifferenceKind.ALTERED, AT, BY + AT)},
    ),
    "headers in another order": (
        in_place(altered(headers=[HEADERS[1], HEADERS[0], HEADERS[2]])(SOURCE)),
        {(DifferenceKind.ALTERED, AT, BY + AT)},
    ),
    "a header lost": (in_place(altered(headers=HEADERS[:2])(SOURCE)), {(DifferenceKind.ALTERED, AT, BY + AT)}),
    "headers lost": (in_place(altered(headers=None)(SOURCE)), {(DifferenceKind.ALTERED, AT, BY + AT)}),
    "timestamp": (
        in_place(altered(time=SOURCE[AT].time + timedelta(milliseconds=1))(SOURCE)),
        {(DifferenceKind.ALTERED, AT, BY + AT)},
    ),
    "stamped by the target": (in_place(altered(time=SOURCE[0].time, kind=1)(SOURCE)), set()),
    "moved as a whole": (
        [one._replace(offset=one.offset + 1) for one in in_place(SOURCE)],
        {(DifferenceKind.SHIFTED, 0, BY)},
    ),
}
NAMES = [
    *CASES,
    "null",
    "foreign",
    "source compacts",
    "target compacts",
    "nothing copied",
    "cut",
    "gone",
    "may be gone",
    "refused",
    "refused and lost",
    "refused and compacts",
    "refused and lost, compacts",
]
_NULL = altered(value=None)(SOURCE)
_SUPERSEDED, _TOMBSTONE = 10, 20
_KEYED = [
    one._replace(value=None) if one.offset == _TOMBSTONE else one for one in SOURCE if one.offset != COUNT - 1
] + [SOURCE[-1]._replace(key=b"k%d" % _SUPERSEDED)]
_CLEANED = [one for one in _KEYED if one.offset not in (_SUPERSEDED, _TOMBSTONE)]
_BROKEN = MapColumns([0, 40], [BY, BY + 43], [38, 20])
"""A map with places for nothing of ours: the source's 38 and 39 hold no record, the target's from 38 to 42 none."""
_REFUSED, _REPLAYED_AT = 10, BY + 32
_ALIKE = [one._replace(key=b"k10", value=b"v10", time=SOURCE[_REFUSED].time, headers=None) for one in SOURCE[10:12]]
_WITH_REFUSED = [*SOURCE[:10], *_ALIKE, *SOURCE[12:]]
"""Two records alike, of which the target refuses the first; it also refuses the one at `AT`."""
_AROUND = MapColumns([0, 11, AT + 1], [BY, BY + 10, BY + 33], [10, 22, COUNT - AT - 1])
_LEFT_OUT = [
    one._replace(offset=BY + n)
    for n, one in enumerate([*SOURCE[:10], *_WITH_REFUSED[11:AT], _ALIKE[0], *SOURCE[AT + 1 :]])
]
"""The copy without both; the first one was replayed between."""


def batch(kept: Kept) -> tuple[BatchHeader, tuple[Record]]:
    """Make a batch of one record, as an answer of a broker has it."""
    headers = tuple((name.encode(), value) for name, value in kept.headers or ())
    time_ms = round(kept.time.timestamp() * 1000)
    header = BatchHeader(kept.offset, 100, 0, 2, 0, LOG_APPEND_BIT * kept.kind, 0, time_ms, time_ms, -1, -1, -1, 1)
    return header, (Record(kept.offset, time_ms, kept.key, kept.value, headers),)


class Logs:
    """Both clusters' logs, read as the connector reads."""

    def __init__(self) -> None:
        self.records: dict[TopicPartition, list[Kept]] = {}
        self.lanes: list[ProofLane] = []

    def add(self, source: list[Kept], target: list[Kept], **options: Any) -> None:
        number = len(self.lanes)
        name = LaneName(TopicPartition("t", number), TopicPartition("A.t", number))
        self.records |= {name.source: source, name.target: target}
        end = max((one.offset + 1 for one in target), default=BY)
        options = {
            "runs": MapColumns([0], [BY], [COUNT]),
            "source_bounds": (0, COUNT),
            "target_bounds": (BY, end),
            "target_to": BY + COUNT,
            **options,
        }
        self.lanes.append(ProofLane(name=name, source_from=0, source_to=COUNT, target_from=BY, **options))

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[tuple[Log, Log]]:
        """Read as the engine's clients do, a few batches of one record at a time."""
        yield self.answers, self.answers

    async def answers(self, partition: TopicPartition, stretch: tuple[int, int]) -> AsyncIterator[tuple[int, Batches]]:
        kept = [one for one in self.records[partition] if stretch[0] <= one.offset < stretch[1]]
        for at in range(0, len(kept), 7):
            yield kept[at : at + 7][-1].offset + 1, [batch(one) for one in kept[at : at + 7]]
        yield stretch[1], []

    def read(
        self,
        spark: "SparkSession",
        _kafka_options: Any,
        intervals: Mapping[TopicPartition, tuple[int, int]],
        **_options: Any,
    ) -> "DataFrame":
        rows = [
            (one.key, one.value, *partition, one.offset, one.time, one.kind, one.headers)
            for partition, (low, high) in intervals.items()
            for one in self.records[partition]
            if low <= one.offset < high
        ]
        return spark.createDataFrame(
            rows,
            "key binary, value binary, topic string, partition int, offset long, timestamp timestamp,"
            " timestampType int, headers array<struct<key: string, value: binary>>",
        )


TERMS = ProofOptions(flow=FlowName("A", "B"), range_records=8, wave_records=COUNT * 12, looked_at_once=20)
"""Ranges of 8 and waves of a few lanes."""


def staged() -> Logs:
    """Make the logs of all lanes, in the order of `NAMES`."""
    logs = Logs()
    for target, _ in CASES.values():
        logs.add(SOURCE, target)
    logs.add(_NULL, in_place(_NULL))
    others = [record(900)._replace(offset=BY + 40), *in_place([one for one in SOURCE if one.offset < 38])]
    behind = [one._replace(offset=one.offset + BY + 3) for one in SOURCE[40:]]
    logs.add(without(38, 39), [*others, *behind], runs=_BROKEN, target_to=BY + 63)
    logs.add(_CLEANED, in_place(_KEYED), source_compacts=True)
    lost = [one for one in _CLEANED if one.offset != AT]
    logs.add(_KEYED, in_place(lost), target_compacts=True)
    logs.add(SOURCE, [], runs=MapColumns([], [], []), target_to=BY)
    logs.add(SOURCE[:AT], in_place(SOURCE[:AT]), source_bounds=(0, AT))
    logs.add(without(AT, AT + 1), in_place(without(AT, AT + 1, COUNT - 1)))
    logs.add(without(AT, AT + 1), in_place(without(AT, AT + 1)), source_compacts=True, target_compacts=True)
    refused = {"left_out": frozenset({_REFUSED, AT}), "replayed": frozenset({_REPLAYED_AT})}
    for compacts, absent in product((False, True), (-1, BY + 40)):
        kept = [one for one in _LEFT_OUT if one.offset != absent]
        logs.add(_WITH_REFUSED, kept, runs=_AROUND, target_to=BY + 59, target_compacts=compacts, **refused)
    return logs


@pytest.fixture(scope="module")
def on_spark(spark: "SparkSession") -> "Prover[DataFrame]":
    """All lanes, proven by Spark."""
    from engine.jobs.proof.places import frames as proof_frames
    from engine.jobs.proof.places.sides import Sides, SparkPlace

    logs = staged()
    prover = Prover(SparkPlace(spark, Sides(source={}, target={}), logs.lanes, 1000), TERMS, logs.lanes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(proof_frames, "read", logs.read)
        prover.run()
    return prover


@pytest.fixture(scope="module")
def in_process() -> "Prover[str]":
    """All lanes, proven without Spark."""
    logs = staged()
    with closing(LocalPlace(logs.opened, logs.lanes, sys.maxsize)) as place:
        prover = Prover(place, TERMS, logs.lanes)
        prover.run()
    return prover


@pytest.fixture(scope="module", params=["in_process", pytest.param("on_spark", marks=pytest.mark.local)])
def proven(request: pytest.FixtureRequest) -> "Prover[Any]":
    """All lanes, proven at each of the two places."""
    found: Prover[Any] = request.getfixturevalue(request.param)
    return found


def test_both_places_say_the_same(on_spark: "Prover[DataFrame]", in_process: "Prover[str]") -> None:
    assert dict(zip(NAMES, in_process.tallies, strict=True)) == dict(zip(NAMES, on_spark.tallies, strict=True))


def found_in(proven: "Prover[Any]", name: str) -> Expected:
    return {(one.kind, one.source, one.target) for one in proven.tallies[NAMES.index(name)].found}


@pytest.mark.parametrize("name", list(CASES))
def test_each_planted_fault_is_found_and_nothing_else(proven: "Prover[Any]", name: str) -> None:
    found, expected = found_in(proven, name), CASES[name][1]
    if name == "doubled":  # which of two that are alike is the copy cannot be told
        assert {(kind, target) for kind, _, target in found} == {(kind, target) for kind, _, target in expected}
    else:
        assert found == expected
    tally = proven.tallies[NAMES.index(name)]
    assert (tally.bad_from >= 0) == bool(expected)
    if expected:
        assert tally.bad_from <= min(source for _, source, _ in expected)
    assert tally.records == COUNT
    assert tally.not_comparable == (name == "stamped by the target")


def test_what_was_altered_is_named(proven: "Prover[Any]") -> None:
    said = {name: [one.what for one in proven.tallies[NAMES.index(name)].found] for name in CASES}
    assert said["key"] == ["key"]
    assert said["value by a bit"] == said["null made empty"] == ["value"]
    assert said["headers lost"] == said["header key"] == ["headers"]
    assert said["timestamp"] == ["timestamp"]


def test_a_null_is_a_null(proven: "Prover[Any]") -> None:
    assert found_in(proven, "null") == set()


def test_records_of_others_are_extra(proven: "Prover[Any]") -> None:
    assert found_in(proven, "foreign") == {(DifferenceKind.EXTRA, -1, BY + 40)}


def test_what_the_source_compacted_is_not_comparable(proven: "Prover[Any]") -> None:
    assert found_in(proven, "source compacts") == set()
    assert proven.tallies[NAMES.index("source compacts")].not_comparable == 2


def test_of_a_compacted_copy_only_what_nothing_superseded_is_missing(proven: "Prover[Any]") -> None:
    assert found_in(proven, "target compacts") == {(DifferenceKind.MISSING, AT, BY + AT)}
    assert proven.tallies[NAMES.index("target compacts")].not_comparable == 2


def test_records_that_the_map_says_nothing_of_are_missing(proven: "Prover[Any]") -> None:
    assert found_in(proven, "nothing copied") == {(DifferenceKind.MISSING, n, BY) for n in range(COUNT)}


def test_what_the_map_knows_and_neither_side_has_is_gone(proven: "Prover[Any]") -> None:
    tally = proven.tallies[NAMES.index("cut")]
    assert tally.found == [FoundDifference(DifferenceKind.GONE, AT, BY + AT, records=COUNT - AT)]
    assert (tally.differences, tally.records) == (COUNT - AT, AT)
    assert tally.bad_from in range(AT - 8, AT + 1)
    tally = proven.tallies[NAMES.index("gone")]
    assert set(tally.found) == {
        FoundDifference(DifferenceKind.GONE, AT, BY + AT, records=2),
        FoundDifference(DifferenceKind.MISSING, COUNT - 1, BY + COUNT - 1),
    }


def test_where_logs_compact_nothing_is_gone(proven: "Prover[Any]") -> None:
    tally = proven.tallies[NAMES.index("may be gone")]
    assert (tally.found, tally.bad_from) == ([], -1)


@pytest.mark.parametrize("name", ["refused", "refused and compacts"])
def test_refused_records_that_were_left_out_are_counted_and_no_differences(proven: "Prover[Any]", name: str) -> None:
    tally = proven.tallies[NAMES.index(name)]
    assert (tally.found, tally.bad_from, tally.left_out, tally.replayed) == ([], -1, 2, 1)
    assert tally.not_comparable == 0


@pytest.mark.parametrize("name", ["refused and lost", "refused and lost, compacts"])
def test_beside_refused_records_a_lost_one_is_found(proven: "Prover[Any]", name: str) -> None:
    tally = proven.tallies[NAMES.index(name)]
    assert found_in(proven, name) == {(DifferenceKind.MISSING, 41, BY + 40)}
    assert (tally.left_out, tally.replayed) == (2, 1)


def test_what_both_sides_passed_over_once_is_read_again(spark: "SparkSession") -> None:
    from engine.jobs.proof.places import frames as proof_frames
    from engine.jobs.proof.places.sides import Sides, SparkPlace

    logs, read = Logs(), list[int]()
    logs.add(SOURCE, in_place(SOURCE))

    def skipping(*words: Any, **options: Any) -> "DataFrame":
        frame = logs.read(*words, **options)
        read.append(frame.count())
        return frame.where(f"offset % {BY} != {AT}") if len(read) <= 2 else frame

    prover = Prover(
        SparkPlace(spark, Sides(source={}, target={}), logs.lanes, 1000),
        ProofOptions(flow=FlowName("A", "B")),
        logs.lanes,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(proof_frames, "read", skipping)
        prover.run()
    (tally,) = prover.tallies
    assert read == [COUNT] * 4, "it was looked at closer"
    assert (tally.found, tally.bad_from) == ([], -1)


def test_a_look_that_is_cut_says_so(spark: "SparkSession") -> None:
    from engine.jobs.proof.places import frames as proof_frames
    from engine.jobs.proof.places.sides import Sides, SparkPlace

    logs = Logs()
    logs.add(SOURCE, [])
    options = ProofOptions(flow=FlowName("A", "B"), most_looked_into=20, most_told=5)
    prover = Prover(SparkPlace(spark, Sides(source={}, target={}), logs.lanes, 1000), options, logs.lanes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(proof_frames, "read", logs.read)
        prover.run()
    (tally,) = prover.tallies
    assert tally.note
    assert tally.bad_from == 0
    assert 0 < len(tally.found) <= 5


def tasks_of(spark: "SparkSession", share: CoreBudget) -> list[int]:
    """Prove a good copy; give the tasks in which each side was read and digested."""
    from engine.jobs.proof.places import frames as proof_frames
    from engine.jobs.proof.places.sides import Sides, SparkPlace

    logs, found = Logs(), list[int]()
    logs.add(SOURCE, in_place(SOURCE))

    class Noting(SparkPlace):
        def query(self, text: str, **tables: "DataFrame") -> "DataFrame":
            if "BIT_XOR" in text:
                assert share.turn.locked()
                found.append(tables["records"].rdd.getNumPartitions())
            return super().query(text, **tables)

    prover = Prover(
        Noting(spark, Sides(source={}, target={}), logs.lanes, 1000),
        ProofOptions(flow=FlowName("A", "B")),
        logs.lanes,
        share=share,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(proof_frames, "read", logs.read)
        prover.run()
    assert (prover.tallies[0].records, prover.tallies[0].bad_from) == (COUNT, -1)
    assert prover.cores == (share.most_tasks or spark.sparkContext.defaultParallelism)
    assert not share.turn.locked()
    return found


def test_beside_streams_it_leaves_a_core_and_takes_turns(spark: "SparkSession") -> None:
    cores = spark.sparkContext.defaultParallelism
    assert tasks_of(spark, CoreBudget(streams=False, cores=cores)) == [cores, cores]
    assert tasks_of(spark, CoreBudget(streams=True, cores=cores)) == [cores - 1, cores - 1]


def test_records_are_not_turned_into_objects_and_back(spark: "SparkSession") -> None:
    """Spark's first interface does that, and is what its Kafka source is read by unless it is told otherwise."""
    from engine.jobs.proof.places import frames as proof_frames
    from engine.jobs.proof.places.sides import Sides, SparkPlace

    own = SparkPlace(spark, Sides(source={}, target={}), [], 1000)
    options, one = {"kafka.bootstrap.servers": "127.0.0.1:1"}, TopicPartition("t", 0)
    plans = [
        proof_frames.read(session, options, {one: (0, 1)}, committed=True, tasks=1)._jdf.queryExecution().analyzed()
        for session in (own._spark, spark)
    ]
    assert ["RelationV2" in plan.toString() for plan in plans] == [True, False]
