"""Divides the limits of a flow among its copiers, by what each has reported."""

from collections.abc import Iterable

from actors.control.copier_handle import CopierHandle
from actors.model.states import CopierState
from policies.placement.bandwidth_shares import BandwidthUse, shares_of
from policies.traffic import TrafficRules

_UNUSED = BandwidthUse()


def divided(traffic: TrafficRules, handles: Iterable[CopierHandle]) -> dict[str, TrafficRules]:
    """Return the rules of each copier that has started: the classes as they are, its part of every limit."""
    copiers = [handle for handle in handles if handle.state is not CopierState.STARTING]
    if not traffic.bandwidth:
        return {handle.copier_id: traffic for handle in copiers}
    parts: dict[str, dict[str, int]] = {handle.copier_id: {} for handle in copiers}
    for rule in traffic.bandwidth:
        uses = [_use(handle, rule.pattern) for handle in copiers]
        for handle, share in zip(copiers, shares_of(rule.bytes_per_s, uses), strict=True):
            parts[handle.copier_id][rule.pattern] = share
    return {copier_id: traffic.shared(shares) for copier_id, shares in parts.items()}


def _use(handle: CopierHandle, pattern: str) -> BandwidthUse:
    return _UNUSED if handle.progress is None else handle.progress.bandwidth.get(pattern, _UNUSED)
