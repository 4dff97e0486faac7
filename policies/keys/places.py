"""The places of a key: the concrete keys of a flow that may set it, strongest first.

`engine/config/flow_keys.py` looks there; a test compares both.
"""

from policies.keys.read_key import PLACES
from policies.model import FlowName

SIDES = ("source", "target")


def places(level: str, name: str, flow: FlowName, side: str = "source") -> tuple[str, ...]:
    """Return the keys that may set a value for a flow. `side`: of an admin client, or of a key of a cluster."""
    return tuple(_concrete(place, name, flow, side) for place in PLACES[level])


def _concrete(place: str, name: str, flow: FlowName, side: str) -> str:
    before = place.removesuffix("key")
    if before.startswith("A->B."):
        before = f"{flow}.{before[5:].replace('SIDE', side)}"
    elif before[:2] in ("A.", "B.", "X."):
        alias = {"A": flow.source, "B": flow.target, "X": getattr(flow, side)}[before[0]]
        before = f"{alias}.{before[2:]}"
    return before + name
