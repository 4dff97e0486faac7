"""Which sets a flow's lanes form: `policies.assignment`, in the shape the supervisor asks."""

from collections.abc import Mapping

from policies.assignment import SetPlan
from policies.model import FlowName, LaneName, PartitionSet


def plan_sets(
    flow: FlowName, lanes: tuple[LaneName, ...], known: Mapping[str, PartitionSet], hands: int
) -> tuple[PartitionSet, ...]:
    """Keep every lane in the set it is in; new ones join the smallest. `hands` = how many copiers are to be busy."""
    plan = SetPlan(sets={set_id: group.lanes for set_id, group in known.items()}).with_lanes(flow, lanes, hands)
    return tuple(
        PartitionSet(set_id=set_id, flow=flow, epoch=0, lanes=held) for set_id, held in sorted(plan.sets.items())
    )
