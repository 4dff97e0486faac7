"""The verdict of a part of the join, against the plan of the loop from the same recorded snapshot and memory."""

from random import Random

import msgspec
import pytest

from engine.flow.config_sync.planning import Compared, merged
from engine.flow.config_sync.snapshot import Snapshot
from engine.jobs.config_sync.describe import UNASKED, Packer
from engine.jobs.config_sync.job import RoundFailed, complete
from engine.jobs.config_sync.verdict import JoinedRow, unpack_verdict, verdict
from policies.sync.config_sync import Known
from policies.sync.topic_configs import WantedConfigs
from tests.unit.engine.flow.config_sync.test_planning import options, planned, recorded

RULES = options()


def joined(taken: Snapshot, topics: list[str], known: Known) -> list[JoinedRow]:
    """Make the rows that the join of this snapshot has, as executors describe it."""
    ours, theirs, wanted = Packer(), Packer(), WantedConfigs(RULES.configs)
    rows = []
    for topic in topics:
        copy, state = f"A.{topic}", taken.source.get(topic)
        memory = msgspec.msgpack.encode(known[topic]) if topic in known else b""
        if state is None:
            rows.append(JoinedRow(copy, topic, 1, 1, memory, b"", taken.unread[topic]))
            continue
        configs = ours.pack(state.configs, wanted.of(state.configs))
        row = JoinedRow(copy, topic, state.partitions, state.replicas, memory, configs, "")
        if copy in taken.unread:
            row = row._replace(copy_partitions=1, copy_replicas=1, copy_configs=b"", copy_why=taken.unread[copy])
        elif (target := taken.target.get(copy)) is not None:
            row = row._replace(
                copy_partitions=target.partitions,
                copy_replicas=target.replicas,
                copy_configs=theirs.pack(target.configs, target.configs),
                copy_why="",
            )
        else:
            row = row._replace(copy_partitions=0, copy_replicas=0, copy_configs=b"", copy_why="")
        rows.append(row)
    return rows


def by_verdict(rows: list[JoinedRow], parts: int) -> Compared:
    found = [list(verdict(RULES, rows[at::parts])) for at in range(parts)]
    return merged(unpack_verdict(packed) for (packed,) in found)


@pytest.mark.parametrize("seed", range(20))
def test_spark_and_loop_plan_alike_from_one_recorded_snapshot(seed: int) -> None:
    random = Random(1000 + seed)
    taken, known = recorded(random)
    topics = sorted({*taken.source, *(name for name in taken.unread if not name.startswith("A."))})
    loop = planned(taken, topics, known, RULES, shapes=False)
    spark = by_verdict(joined(taken, topics, known), parts=1 + seed % 4)
    assert spark.plan.changes == loop.plan.changes
    assert spark.plan.conflicts == loop.plan.conflicts
    assert (spark.plan.topics, spark.uncopied) == (loop.plan.topics, loop.uncopied)
    assert spark.known == loop.known
    assert spark.unread == {name: why for name, why in taken.unread.items() if name.removeprefix("A.") in topics}
    assert loop.plan.changes


def test_a_part_without_rows_is_an_empty_plan() -> None:
    assert by_verdict([], parts=1) == Compared()


def test_a_copy_that_no_task_described_is_no_copy_that_does_not_exist() -> None:
    taken, known = recorded(Random(1))
    rows = joined(taken, sorted(taken.source), known)
    lost = next(row for row in rows if row.copy_partitions)
    at = rows.index(lost)
    rows[at] = lost._replace(copy_partitions=None, copy_replicas=None, copy_configs=None, copy_why=None)
    found = by_verdict(rows, parts=2)
    assert lost.topic in found.unread[UNASKED]
    with pytest.raises(RoundFailed, match=f"ran again described no copy of {lost.topic}$"):
        complete(packed for part in (rows[:at], rows[at:]) for packed in verdict(RULES, part))


def test_a_partition_that_is_computed_again_while_its_cluster_is_away_fails_the_round() -> None:
    taken, known = recorded(Random(1))
    away = JoinedRow(UNASKED, UNASKED, 0, 0, b"", b"", "cluster 'A' is away")
    with pytest.raises(RoundFailed, match="cluster 'A' is away"):
        complete(verdict(RULES, [*joined(taken, sorted(taken.source), known), away]))


def test_verdicts_of_all_topics_are_the_plan() -> None:
    taken, known = recorded(Random(1))
    rows = joined(taken, sorted(taken.source), known)
    assert complete(verdict(RULES, rows)) == by_verdict(rows, parts=1)
