"""Whether a target has room for copies that would be made, as far as brokers tell of their disks."""

from collections.abc import Mapping

from engine.kafka.cluster import ClusterClient
from engine.kafka.log_dirs import room, sizes
from policies.model import FlowName

_GIB = 1 << 30


async def lack_of_room(
    flow: FlowName, source: ClusterClient, target: ClusterClient, copies: Mapping[str, int], replicas: int
) -> str:
    """Say how much the copies of topics (with their partitions) take and how much is free; empty where that will do.

    No fault by itself: what retention takes away meanwhile, or a start that is not at the earliest record, needs none.
    """
    if not copies:
        return ""
    free = await room(target)
    if free is None:
        return ""
    needed = sum((await sizes(source, copies)).values()) * max(1, replicas)
    if needed <= free:
        return ""
    times = f" {replicas} times" if replicas > 1 else ""
    return (
        f"the copies that will be created take about {needed / _GIB:,.1f} GiB (what {flow.source!r} has of these topics"
        f"{times}), and the brokers of cluster {flow.target!r} have {free / _GIB:,.1f} GiB free: give them more disk,"
        f" fewer topics, or a later start ({flow}.raymirror.start)"
    )
