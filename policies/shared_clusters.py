"""What flows do whose aliases lead to one cluster: names that hide where a record has been.

MM2 knows a cycle by the aliases in a topic's name (MirrorSourceConnector.isCycle). Two aliases of one cluster pass
that test, also with DefaultReplicationPolicy: `t` becomes `A.t`, `A.t` becomes `A.A.t`, and so on.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum

from policies.selection import TopicSelection
from policies.topology import Loop


class OneCluster(Enum):
    """What to do where both aliases of a flow lead to one cluster."""

    REFUSE = "refuse"
    ALLOW = "allow"
    """Copy within the cluster, and leave out what would be copied again and again."""
    IGNORE = "ignore"
    """They are two, whatever the ids of their topics say: one was made of the other's disks."""


def feeds_itself(flow: TopicSelection, topic: str) -> bool:
    """Whether a flow within one cluster would copy its own copy of a topic; Identity naming copies it onto itself."""
    return flow.wants(flow.target_topic(topic))


def find_way_back(
    flows: Sequence[TopicSelection], topics: Mapping[str, Iterable[str]], same: Mapping[str, str]
) -> Loop | None:
    """Return the first topic that several flows bring back to a cluster under another alias; None if there is none.

    `topics` are those of each source alias, `same` names one alias for all that lead to its cluster. A flow within
    one cluster is judged by `feeds_itself` and taken no step of here.
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
    """Follow a flow's copy until it comes to a cluster again; a way is never longer than there are clusters."""
    if not flow.wants(topic):
        return None
    target, after = flow.flow.target, (*way, flow.flow.target)
    home = _home(same, target)
    passed = [alias for alias in way if _home(same, alias) == home]
    if passed:  # by the same alias it is for `find_loop`, which knows the names
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
