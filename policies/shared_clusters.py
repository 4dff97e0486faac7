"""Finds copy loops between aliases of one cluster, in which topic names hide the clusters that a record has passed.

MM2 detects a cycle by the aliases in a topic's name (MirrorSourceConnector.isCycle). Two aliases of one cluster pass
that test, also with DefaultReplicationPolicy: `t` becomes `A.t`, `A.t` becomes `A.A.t`, and so on.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum

from policies.selection import TopicSelection
from policies.topology import Loop


class OneCluster(Enum):
    """The choices for a flow whose two aliases lead to one cluster."""

    REFUSE = "refuse"
    ALLOW = "allow"
    """Copy within the cluster, and leave out topics that would be copied again and again."""
    IGNORE = "ignore"
    """They are two clusters, although their topic ids are equal: one was created from the other's disks."""


def feeds_itself(flow: TopicSelection, topic: str) -> bool:
    """Whether a flow within one cluster would copy its own copy of a topic; Identity naming copies it onto itself."""
    return flow.wants(flow.target_topic(topic))


def find_way_back(
    flows: Sequence[TopicSelection], topics: Mapping[str, Iterable[str]], same: Mapping[str, str]
) -> Loop | None:
    """Return the first topic that several flows bring back to a cluster under another alias; None if there is none.

    `topics`: the topics of each source alias. `same`: one common alias for all aliases that lead to its cluster. A flow
    within one cluster is not followed here; `feeds_itself` judges it.
    """
    between = [flow for flow in flows if _home(same, flow.flow.source) != _home(same, flow.flow.target)]
    for flow in between:
        for topic in topics.get(flow.flow.source, ()):
            aliases = _walk(between, (flow.flow.source,), topic, flow, same)
            if aliases is not None:
                return Loop(topic, aliases)
    return None


def _walk(
    flows: Sequence[TopicSelection], way: tuple[str, ...], topic: str, flow: TopicSelection, same: Mapping[str, str]
) -> tuple[str, ...] | None:
    """Follow a flow's copy until it reaches a cluster again; a path never has more steps than there are clusters."""
    if not flow.wants(topic):
        return None
    target, after = flow.flow.target, (*way, flow.flow.target)
    home = _home(same, target)
    passed = [alias for alias in way if _home(same, alias) == home]
    if passed:  # a way back under the same alias is for `find_loop`, which knows the names
        return after if target not in passed else None
    for further in flows:
        if _home(same, further.flow.source) != home:
            continue
        found = _walk(flows, after, flow.target_topic(topic), further, same)
        if found is not None:
            return found
    return None


def _home(same: Mapping[str, str], alias: str) -> str:
    return same.get(alias, alias)
