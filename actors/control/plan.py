"""Which sets a flow's lanes form: `policies.placement.assignment`, in the shape the supervisor asks."""

from collections.abc import Mapping

from policies.model import FlowName, LaneName
from policies.placement.assignment import SetPlan


def plan_sets(
    flow: FlowName, lanes: tuple[LaneName, ...], known: Mapping[str, tuple[LaneName, ...]], hands: int
) -> Mapping[str, tuple[LaneName, ...]]:
    """Keep every lane in the set it is in; new ones join the smallest. `hands` = how many copiers are to be busy."""
    return SetPlan(sets=dict(known)).with_lanes(flow, lanes, hands).sets
