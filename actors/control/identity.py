"""The identity of a mirror, and how long a drain and a lease may take."""

import msgspec


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """The identity of a mirror: `status` shows it, `run` compares it before it joins a mirror."""

    namespace: str
    version: str
    config_path: str
    config_digest: str
    instance_id: str = ""


class Durations(msgspec.Struct, frozen=True, kw_only=True):
    """How long a drain may take and how long a lease lasts, in seconds."""

    drain_s: float = 20.0
    lease_s: float = 6.0
