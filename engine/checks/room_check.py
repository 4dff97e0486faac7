"""Checks that a target has disk space for the copies to be created, as far as brokers report their disks."""

from collections.abc import Mapping

from engine.kafka.admin.log_dirs import room, sizes
from engine.kafka.client.cluster import ClusterClient
from policies.model import FlowName

_GIB = 1 << 30


async def lack_of_room(
    flow: FlowName, source: ClusterClient, target: ClusterClient, copies: Mapping[str, int], replicas: int
) -> str:
    """Say how much disk the copies need and how much is free; empty if there is enough, or if it is not known.

    `copies`: topics with their numbers of partitions. A lack is only a doubt: records that retention deletes during the
    copy, or that a later start leaves out, need no disk.
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
        f"the copies that will be created take about {needed / _GIB:,.1f} GiB (the size of these topics on"
        f" {flow.source!r}{times}), and the brokers of cluster {flow.target!r} have {free / _GIB:,.1f} GiB free: add"
        f" disk, copy fewer topics, or start later in the topics ({flow}.raymirror.start)"
    )
