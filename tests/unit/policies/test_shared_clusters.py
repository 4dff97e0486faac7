"""Flows whose aliases lead to one cluster: a topic name does not show where a record was before."""

import pytest

from policies.model import FlowName
from policies.naming import DefaultNaming, IdentityNaming
from policies.selection import TopicSelection
from policies.shared_clusters import feeds_itself, find_way_back
from policies.topology import Loop


def flow(name: str, *topics: str, identity: bool = False) -> TopicSelection:
    source, target = name.split("->")
    naming = IdentityNaming(source) if identity else DefaultNaming()
    return TopicSelection(FlowName(source, target), naming, topics or (".*",))


@pytest.mark.parametrize(
    ("selection", "topic", "feeds"),
    [
        (flow("A->B", identity=True), "t", True),
        (flow("A->B"), "t", True),
        (flow("A->B", "t"), "t", False),
        (flow("A->B", ".*t"), "t", True),
        (flow("A->B", "t"), "heartbeats", True),
    ],
)
def test_a_flow_within_one_cluster_that_would_copy_its_copies(
    selection: TopicSelection, topic: str, feeds: bool
) -> None:
    assert feeds_itself(selection, topic) is feeds


SAME = {"A": "A", "B": "B", "A2": "A", "B2": "B"}


@pytest.mark.parametrize(
    ("flows", "way"),
    [
        ([flow("A->B"), flow("B->A2")], ("A", "B", "A2")),
        ([flow("A->B"), flow("B2->A2")], ("A", "B", "A2")),
        ([flow("A->B"), flow("B->C"), flow("C->A2")], ("A", "B", "C", "A2")),
        ([flow("A->B", "t"), flow("B->A2", "t")], None),  # A.t is not wanted
        ([flow("A->B"), flow("B->A")], None),  # the names say where it was
        ([flow("A->B"), flow("B->A", identity=True)], None),  # `find_loop` has this one
        ([flow("A->A2")], None),
        ([flow("A->B"), flow("A2->B")], None),
        ([flow("A->B", "u")], None),
    ],
)
def test_a_way_back_under_another_alias(flows: list[TopicSelection], way: tuple[str, ...] | None) -> None:
    topics = {one.flow.source: ["t"] if one.flow.source == "A" else [] for one in flows}
    assert find_way_back(flows, topics, SAME) == (None if way is None else Loop("t", way))
