"""SiteNodes: which sites have no node, and that nobody asks Ray without need."""

from collections.abc import Sequence
from typing import Any

from actors.control.site_nodes import NodesUnknown, SiteNodes


def node(*, alive: bool = True, **resources: float) -> dict[str, Any]:
    return {"Alive": alive, "Resources": resources}


class Cluster:
    """A Ray cluster that counts who asks."""

    def __init__(self, *nodes: dict[str, Any]) -> None:
        self.nodes, self.asked = list(nodes), 0
        self.wanted: frozenset[str] = frozenset()
        self.fails: Exception | None = None
        self.sites = SiteNodes(lambda: self.wanted, self.list)

    def list(self) -> Sequence[dict[str, Any]]:
        self.asked += 1
        if self.fails is not None:
            raise self.fails
        return self.nodes


async def test_ray_is_asked_only_while_a_copier_waits_for_a_site() -> None:
    cluster = Cluster()
    await cluster.sites.look()
    assert cluster.asked == 0
    cluster.wanted = frozenset({"west"})
    await cluster.sites.look()
    assert cluster.asked == 1
    assert "site west" in cluster.sites.missing("west")
    assert cluster.sites.missing("east") == cluster.sites.missing("") == ""


async def test_a_site_is_missing_until_a_node_is_alive_there() -> None:
    cluster = Cluster(node(CPU=1), node(alive=False, CPU=1, raymirror_site_west=1))
    cluster.wanted = frozenset({"west"})
    await cluster.sites.look()
    assert cluster.sites.missing("west")
    cluster.nodes.append(node(CPU=1, raymirror_site_west=1))
    await cluster.sites.look()
    assert cluster.sites.missing("west") == ""


async def test_nothing_is_missing_when_nobody_waits_any_more() -> None:
    cluster = Cluster()
    cluster.wanted = frozenset({"west"})
    await cluster.sites.look()
    cluster.wanted = frozenset()
    await cluster.sites.look()
    assert cluster.sites.missing("west") == ""


async def test_a_ray_that_does_not_answer_changes_nothing_and_ends_nothing() -> None:
    cluster = Cluster()
    cluster.wanted = frozenset({"west"})
    await cluster.sites.look()
    cluster.fails = NodesUnknown("the GCS is down")
    await cluster.sites.look()
    assert "site west" in cluster.sites.missing("west")
