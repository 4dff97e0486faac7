"""Patterns of a flow that match no topic of its source: told before a start, with what was likely meant."""

from collections.abc import Iterator, Mapping, Sequence

from engine.settings import ConfigWarning, FlowConfig
from policies.meant import Idle, idle_patterns


def idle_warnings(
    flow: FlowConfig, topics: Sequence[str], places: Mapping[str, tuple[str, int]]
) -> Iterator[ConfigWarning]:
    """Yield a warning for each pattern of the file that matches no topic of the source as it stands.

    `topics` are all of the source's, `places` says where the flow's patterns are set. An exclusion that matches nothing
    is usual, so it is told only where something near it matches.
    """
    for name, patterns in (("topics", flow.topics), ("topics.exclude", flow.topics_exclude)):
        if place := places.get(f"{flow.name}.{name}"):
            key, line = place
            for idle in idle_patterns(patterns, topics):
                if name == "topics" or idle.meant is not None:
                    yield ConfigWarning(line, key, _text(flow, idle))


def _text(flow: FlowConfig, idle: Idle) -> str:
    meant = "; a topic that comes is copied" if idle.meant is None else f"; did you mean {idle.meant}?"
    return f"pattern {idle.pattern!r} matches no topic of cluster {flow.name.source!r}{meant}"
