"""Whether two aliases lead to one cluster."""

from uuid import UUID

import pytest

from engine.core.identity.same_cluster import ClusterFacts, Sameness, TopicFacts, judge

HERE, THERE = ("broker-1", 9092), ("broker-9", 9092)


def topic(number: int, *epochs: int) -> TopicFacts:
    return TopicFacts(UUID(int=number), dict(enumerate(epochs or (0,))))


def cluster(cluster_id: str = "x", *addresses: tuple[str, int], **topics: TopicFacts) -> ClusterFacts:
    return ClusterFacts(cluster_id, frozenset(addresses), topics)


@pytest.mark.parametrize(
    ("one", "other", "sameness", "why"),
    [
        (cluster("x", HERE), cluster("y", HERE), Sameness.TWO, ""),
        (cluster("x", HERE, THERE), cluster("x", THERE), Sameness.ONE, "a broker at broker-9:9092"),
        (cluster("", HERE), cluster("", HERE), Sameness.ONE, "a broker at broker-1:9092"),
        (cluster("", HERE), cluster("x", THERE), Sameness.TWO, ""),
        (cluster("x", HERE), cluster("x", THERE), Sameness.UNKNOWN, "both report cluster id x"),
        # Ids of topics: two listeners of one cluster, constant cluster ids, copied disks.
        (cluster("x", HERE, t=topic(1)), cluster("x", THERE, t=topic(1)), Sameness.ONE, "both have topic 't' of"),
        (cluster("", HERE, t=topic(1)), cluster("x", THERE, t=topic(1)), Sameness.ONE, "both have topic 't' of"),
        (cluster("x", t=topic(1)), cluster("x", t=topic(2)), Sameness.TWO, ""),
        (cluster("x", t=topic(0)), cluster("x", t=topic(0)), Sameness.UNKNOWN, "no topic in common"),
        (cluster("x", t=topic(1)), cluster("x", t=topic(0)), Sameness.UNKNOWN, "no topic in common"),
        (cluster("x", t=topic(1)), cluster("x", u=topic(1)), Sameness.UNKNOWN, "no topic in common"),
        (cluster("x", t=topic(1, 4, 4)), cluster("x", t=topic(1, 6, 6)), Sameness.UNKNOWN, "copied disks"),
        (cluster("x", t=topic(1, 4, 4, 4)), cluster("x", t=topic(1, 4, 5, 4)), Sameness.ONE, "topic 't'"),
        (cluster("x", t=topic(1, 4, 4)), cluster("x", t=topic(1, 4)), Sameness.ONE, "topic 't'"),
        (
            cluster("x", t=topic(1), u=topic(2)),
            cluster("x", t=topic(1), u=topic(3)),
            Sameness.UNKNOWN,
            "copied disks",
        ),
        (
            cluster("x", t=topic(1), u=topic(2), v=topic(9)),
            cluster("x", t=topic(1), u=topic(2)),
            Sameness.ONE,
            "topic 't' and 1 more topic of the same id",
        ),
    ],
)
def test_what_is_known_of_two_aliases(one: ClusterFacts, other: ClusterFacts, sameness: Sameness, why: str) -> None:
    for verdict in (judge(one, other), judge(other, one)):
        assert verdict.sameness is sameness
        assert why in verdict.why
        assert bool(why) == bool(verdict.why)
        assert verdict.by_address == ("broker" in why)
