"""Options of a flow's durable state: how often it is renewed, and how long each call may take."""

import msgspec

from policies.model import FlowName


class StateOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of one flow's state; durations in seconds.

    `renew_s` must be well below `dead_after_s` and `kin_dead_after_s`. The latter applies to an owner of the same
    deployment, which is most likely this mirror before a crash. `patience_s` bounds every call; what could not be
    written in time goes with the next write. `witness_s` bounds one question to followers. `scope`: whose entries these
    are, empty for those of the mirror; each scope has an owner, a lease and a transactional id of its own.
    """

    flow: FlowName
    topic: str
    scope: str = ""
    renew_s: float = 1.5
    dead_after_s: float = 30.0
    kin_dead_after_s: float = 5.0
    look_every_s: float = 1.0
    witness_s: float = 5.0
    patience_s: float = 30.0
    keep_alive_s: float = 3600.0
    request_timeout_s: float = 10.0
    batch_bytes: int = 256 * 1024

    @property
    def transactional_id(self) -> str:
        """Name the writer; the id is the same for every owner."""
        return f"raymirror.{self.flow}.{self.scope or 'state'}"
