"""Messages between actors: references and names to start with, orders and reports while they run.

Never a secret: what a new actor receives stays readable in Ray's control store. So it receives only the part of the
configuration that anyone may read. Each actor reads passwords from the file.
"""

import ipaddress

import msgspec

from engine.core.reports.progress import FlowProgress
from policies.model import FlowName, PartitionSet
from policies.traffic import TrafficRules


class ConfigRef(msgspec.Struct, frozen=True, kw_only=True):
    """The path of the configuration and the sha256 of its bytes; actors read the file themselves.

    `kept`: its settings as they stood in the file when the mirror was started, without those that may hold a password.
    The mirror continues with them when the file is edited.
    """

    path: str
    digest: str
    kept: dict[str, str] = {}


class CopierSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What one copier needs to start. `fingerprint`: digest of its code and settings."""

    config: ConfigRef
    flow: FlowName
    copier_id: str
    deployment_id: str
    namespace: str
    fingerprint: str = msgspec.field(name="recipe")  # the name in earlier releases


class MirrorSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What the supervisor needs to start. `instance_id` is created with a mirror, and stays when the mirror changes.
    `dead_instance`: the previous instance, if its process is known to have died. `started_ms`: the Unix time of the
    command to run the mirror. A `detached` mirror continues when no process follows it. `unchecked`: flows that had
    a cluster that did not answer, or missed a right, when the mirror started.
    """

    config: ConfigRef
    namespace: str
    version: str
    deployment_id: str
    drain_s: float
    instance_id: str = ""
    dead_instance: str = ""
    started_ms: int = 0
    detached: bool = False
    unchecked: tuple[str, ...] = ()
    added_ms: dict[str, int] = {}
    """Flows that a reload added, and when (Unix ms): a stop of such a flow counts only if it came after that."""


class Orders(msgspec.Struct, frozen=True, kw_only=True):
    """All that a copier should do, sent again and again until a report says that the copier follows it.

    `term` grows with every supervisor; a copier follows the highest. `version` grows with every change of the orders.
    `sets` is None if the message carries only the lease (version 0: "report who you are"). `stamp` is the copier's
    own clock from the last report that the supervisor has seen. The lease counts from there, so no delay on the way can
    make it longer than the supervisor believes. With `unsure` the lease is not extended at all, because the flow may
    belong to another mirror by now. `wake` grows with every resume, so that a resume of a running flow also
    counts (it retries failed lanes). `sample`: the number of the last snapshot that the supervisor has; 0: none.
    """

    term: int
    version: int
    sets: tuple[PartitionSet, ...] | None
    lease_s: float
    stamp: float = 0.0
    paused: bool = False
    paused_topics: frozenset[str] = frozenset()
    wake: int = 0
    drain: bool = False
    unsure: bool = False
    sample: int = 0
    traffic: TrafficRules | None = None
    """The copier's part of the bandwidth, and the classes of topics; None: as before. Like the lease it has no version:
    the copier applies what the last message says."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a copier. `version`: that of the orders it follows in this `term` (0: none yet). `held`: epochs of
    the sets that it has not released; `sets` has them in full if the orders had none.

    `beat` counts rounds of its data loop: it stays when that loop is stuck. `stamp` is its clock, in seconds.
    `sample`: the number of the snapshot. With `same_lanes` the supervisor has its lanes, and they are left out: tens of
    thousands of them take both sides longer than all else in a report.
    """

    copier_id: str
    fingerprint: str = msgspec.field(name="recipe")  # also in reports of the previous release
    node: str
    term: int
    version: int
    stamp: float
    beat: int
    held: dict[str, int]
    progress: FlowProgress
    sets: tuple[PartitionSet, ...] = ()
    sample: int = 0
    same_lanes: bool = False
    batches: str = ""
    """Which way of a batch the copier uses (`engine.wire.native.in_use`); empty from copiers of earlier releases."""


class StoredOffset(msgspec.Struct, frozen=True, kw_only=True):
    """How far a source partition is copied by its position on the target: all below `source_next` is there."""

    topic: str
    partition: int
    source_next: int


class AlteredOffset(msgspec.Struct, frozen=True, kw_only=True):
    """The last copied offset that a source partition is to have; None: none, so that it begins as a new one."""

    topic: str
    partition: int
    offset: int | None


class ConsoleDoor(msgspec.Struct, frozen=True, kw_only=True):
    """Where the console is. `bind`: the address that the server listens on, at machine `host`.

    `token`: opens one session, for a short time; empty if the server has no users, so that nobody logs in.
    """

    scheme: str
    bind: str
    port: int
    host: str
    token: str = ""

    def __repr__(self) -> str:
        return f"ConsoleDoor({self.scheme!r}, {self.bind!r}, {self.port})"

    def address(self, *, is_here: bool) -> str:
        """Return the address for a browser; `is_here`: whether that runs on the machine of the server.

        The token is in the fragment, which a browser sends to nobody: it is in no log.
        """
        wild = ipaddress.ip_address(self.bind).is_unspecified
        name = self.bind if not wild else "localhost" if is_here else self.host
        shown = f"[{name}]" if ":" in name else name
        fragment = f"#/enter/{self.token}" if self.token else ""
        return f"{self.scheme}://{shown}:{self.port}/console/{fragment}"
