"""Who a mirror is, and how long things may take in it."""

import msgspec


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Who this mirror is: shown by `status`, compared by `run` before it joins one."""

    namespace: str
    version: str
    config_path: str
    config_digest: str
    instance_id: str = ""


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """How long things may take, in seconds."""

    drain_s: float = 20.0
    lease_s: float = 6.0
