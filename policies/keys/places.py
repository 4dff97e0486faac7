"""The places of a key: the concrete keys of a flow that may set it, strongest first.

`engine/config/flow_keys.py` looks there; a test compares both.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from policies.keys.read_key import PLACES
from policies.model import FlowName

SIDES = ("source", "target")
_REMEMBERED = 4096
"""A file is read for every key of every client of every flow, and again at each reload and in each command."""


class LoginPlaces(NamedTuple):
    """Where a client of a flow may have a login of its own: places that win over its cluster's, and places that lose.

    `alias`: A, the source, or B, the target.
    """

    alias: str
    above: tuple[str, ...]
    below: tuple[str, ...] = ()


LOGINS = {
    "consumer": LoginPlaces("A", ("A->B.source.consumer.key", "A.consumer.key"), ("A->B.consumer.key",)),
    "producer": LoginPlaces("B", ("A->B.producer.override.key", "B.producer.key")),
    "source admin": LoginPlaces("A", ("A->B.source.admin.key", "A.admin.key"), ("A->B.admin.key",)),
    "target admin": LoginPlaces("B", ("A->B.target.admin.key", "B.admin.key"), ("A->B.admin.key",)),
    "source syncs": LoginPlaces("A", ("A->B.source.producer.key", "A.producer.key"), ("A->B.producer.key",)),
    "target syncs": LoginPlaces("B", ("A->B.target.producer.key", "B.producer.key"), ("A->B.producer.key",)),
}
"""Client -> the places of its security keys, strongest first. In MM2 (MirrorMakerConfig.clusterProps) a cluster's key
fills the same key of its clients, and those win over the bare clients of a flow. The last two write offset syncs.
"""


@lru_cache(_REMEMBERED)
def client_keys(alias: str, name: str) -> tuple[str, ...]:
    """Return the keys that set a value for each kind of client of a cluster."""
    return tuple(f"{alias}.{client}.{name}" for client in ("consumer", "producer", "admin"))


def agree(values: Iterable[str | None]) -> bool:
    """Whether all clients of a cluster have the same value, which is the cluster's then; None: a client has none."""
    found = {None if value is None else value.strip() for value in values}
    return len(found) == 1 and None not in found


@lru_cache(_REMEMBERED)
def login_places(client: str, name: str, flow: FlowName) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the keys that may set a security key of one client: above those of its cluster, and below them."""
    _, above, below = LOGINS[client]
    return (
        tuple(_concrete(place, name, flow, "source") for place in above),
        tuple(_concrete(place, name, flow, "source") for place in below),
    )


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
