"""The mirror at one moment, as `raymirror status` shows it: frozen structs that cross processes as msgpack."""

import msgspec

from actors.states import CopierState, Desired
from engine.core.progress import LaneProgress


class EventLine(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened. `at_ms` is Unix time."""

    at_ms: int
    severity: str
    flow: str
    text: str


class CopierStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One copier: how far it is, what it owns."""

    copier_id: str
    flow: str
    state: CopierState
    set_ids: tuple[str, ...]
    lanes: int
    buffer_bytes: int
    node: str = ""


class FlowStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One flow, summed over its lanes. Rates are per second over the last few snapshots.

    `unknown_lanes` counts lanes whose lag nobody knows yet (no owner, or the source's end not seen); while it is not 0,
    `lag_records` is a lower bound.
    """

    flow: str
    desired: Desired
    paused_topics: tuple[str, ...]
    topics: int
    lanes: int
    unknown_lanes: int
    lane_states: dict[str, int]
    lag_records: int
    records: int
    wire_bytes: int
    records_per_s: float
    bytes_per_s: float
    errors: int
    waiting_for: str


class MirrorStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The whole mirror. `phase`: `starting`, `running`, `draining` or `stopped`; `refused`: why it may not run."""

    namespace: str
    version: str
    config_path: str
    config_digest: str
    desired: Desired
    phase: str
    at_ms: int
    up_s: float
    flows: tuple[FlowStatus, ...]
    copiers: tuple[CopierStatus, ...]
    events: tuple[EventLine, ...]
    refused: str = ""
    lanes: tuple[LaneProgress, ...] = ()


def encode_status(status: MirrorStatus) -> bytes:
    """Pack a status for the way between processes."""
    return msgspec.msgpack.encode(status)


def decode_status(data: bytes) -> MirrorStatus:
    """Unpack a status; raises msgspec.ValidationError on bytes of another version."""
    return msgspec.msgpack.decode(data, type=MirrorStatus)
