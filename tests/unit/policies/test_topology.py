"""Several flows together: name collisions and loops."""

import pytest

from policies.model import FlowName
from policies.naming import DefaultNaming, IdentityNaming
from policies.selection import DEFAULT_EXCLUDE, TopicSelection
from policies.topology import Loop, colliding_targets, find_loop, named_targets, witnesses


def identity(flow: str, *topics: str, exclude: tuple[str, ...] = DEFAULT_EXCLUDE) -> TopicSelection:
    source, target = flow.split("->")
    return TopicSelection(FlowName(source, target), IdentityNaming(source), topics or (".*",), exclude)


def default(flow: str, *topics: str) -> TopicSelection:
    source, target = flow.split("->")
    return TopicSelection(FlowName(source, target), DefaultNaming(), topics or (".*",))


def test_two_flows_into_one_topic_collide() -> None:
    flows = [identity("A->C", "orders", "a"), identity("B->C", "orders", "b"), identity("A->D", "orders")]
    assert colliding_targets(named_targets(flows)) == [("C", "orders", FlowName("A", "C"), FlowName("B", "C"))]


def test_default_names_do_not_collide() -> None:
    assert colliding_targets(named_targets([default("A->C", "orders"), default("B->C", "orders")])) == []


def test_only_topics_named_one_by_one_are_certain() -> None:
    flow = identity("A->C", r"orders\.eu", "x.*", "__internal", "foo.replica")
    assert named_targets([flow]) == {FlowName("A", "C"): {"orders.eu": "orders.eu"}}


@pytest.mark.parametrize(
    ("flows", "clusters"),
    [
        ([identity("A->B"), identity("B->A")], ("A", "B", "A")),
        ([identity("A->B"), identity("B->C"), identity("C->A")], ("A", "B", "C", "A")),
        ([identity("Z->A"), identity("A->B"), identity("B->A")], ("Z", "A", "B", "A")),
        ([identity("A->B", "x.*"), identity("B->A", ".*y")], ("A", "B", "A")),
        ([identity("A->B"), default("B->A")], ("A", "B", "A", "B", "A")),
    ],
)
def test_loops_are_found(flows: list[TopicSelection], clusters: tuple[str, ...]) -> None:
    found = find_loop(flows, witnesses(flows))
    assert found is not None
    assert found.clusters == clusters


@pytest.mark.parametrize(
    "flows",
    [
        [identity("A->B")],
        [default("A->B"), default("B->A")],
        [default("A->B"), default("B->C"), default("C->A")],
        [identity("A->B", "x.*"), identity("B->A", "y.*")],
        [identity("A->B", ".*", exclude=("b-.*",)), identity("B->A", "b-.*")],
        [identity("A->B"), identity("A->C"), identity("B->D"), identity("C->D")],
        [identity("A->B", "t"), default("B->A", "t")],
        [],
    ],
)
def test_what_ends_is_no_loop(flows: list[TopicSelection]) -> None:
    assert find_loop(flows, [*witnesses(flows), "b-x", "t", "xy"]) is None


def test_names_that_do_not_tell_the_way_are_followed() -> None:
    there = TopicSelection(FlowName("A", "B"), DefaultNaming("_"))
    assert find_loop([there, default("B->A")], ["t"]) == Loop("t", ("A", "B", "A", "B", "A"))
    dots = [default("us.east->eu.west"), default("eu.west->us.east")]
    assert find_loop(dots, ["t"]) is not None


def test_a_large_mesh_is_not_followed_for_ever() -> None:
    names = [f"c{n}" for n in range(9)]
    mesh = [default(f"{one}->{other}") for one in names for other in names if one != other]
    assert find_loop([*mesh, identity("x->y")], [f"t{n}" for n in range(200)]) is None


def test_a_loop_says_its_topic_and_way() -> None:
    assert str(Loop("t", ("A", "B", "A"))) == "topic 't' would be copied A -> B -> A in an endless loop"


@pytest.mark.parametrize(
    ("pattern", "sample"),
    [
        ("orders-.*", "orders-x"),
        (r"a\.b.+", "a.bx"),
        (r"[a-z]+_\d+", "x_0"),
        ("(a|b)-(?:c|d)", "a-c"),
        ("[0-9]+", "0"),
        ("a|b", "a"),
    ],
)
def test_a_witness_matches_its_pattern(pattern: str, sample: str) -> None:
    flow = identity("A->B", pattern)
    assert witnesses([flow]) == (sample,)
    assert flow.wants(sample)
