"""What actors are started with: references and names, never a secret and never the configuration itself."""

import msgspec

from policies.model import FlowName


class ConfigRef(msgspec.Struct, frozen=True, kw_only=True):
    """Where the configuration is and the sha256 of its bytes. Actors read it themselves: what is handed to an actor
    stays readable in Ray's control store.
    """

    path: str
    digest: str


class CopierSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What one copier needs to start."""

    config: ConfigRef
    flow: FlowName
    copier_id: str
    deployment_id: str


class MirrorSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What the supervisor needs to start."""

    config: ConfigRef
    namespace: str
    version: str
    deployment_id: str
    drain_s: float
