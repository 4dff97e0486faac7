"""What crosses between actors: references and names to start with, orders and reports while they run.

Never a secret: what a new actor is handed stays readable in Ray's control store. Of the configuration it is handed what
may be read by anyone; passwords each actor reads from the file.
"""

import msgspec

from engine.core.progress import FlowProgress
from policies.model import FlowName, PartitionSet


class ConfigRef(msgspec.Struct, frozen=True, kw_only=True):
    """Where the configuration is and the sha256 of its bytes; actors read it themselves.

    `kept`: its settings as they stood in the file when the mirror was started, without what may hold a password: the
    mirror goes on with them when the file is edited.
    """

    path: str
    digest: str
    kept: dict[str, str] = {}


class CopierSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What one copier needs to start. `recipe` is a digest of the code and settings it is made of."""

    config: ConfigRef
    flow: FlowName
    copier_id: str
    deployment_id: str
    namespace: str
    recipe: str


class MirrorSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What the supervisor needs to start. `instance_id` is made when a mirror begins and stays while it is changed;
    `dead_instance` is the one before it, where its process is known to have died;
    `started_ms` is the Unix time of the command that wants it to run;
    a detached mirror goes on when nobody follows it; `unchecked` flows had a cluster that was away when it started.
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
    """Flows that a reload added, and when (Unix time): a stop of one is final only for what was asked before it."""


class Orders(msgspec.Struct, frozen=True, kw_only=True):
    """All that a copier is to do, said again and again until a report says that it is followed.

    `term` grows with every supervisor; a copier follows the highest. `version` grows with every change of what is
    said; `sets` is None where nothing but the lease is said (version 0: "tell who you are"). `stamp` is the copier's
    own clock from the last report that the supervisor has seen: the lease counts from there, so no delay on the way
    can make it longer than the supervisor believes; with `unsure` it gets no longer at all, because the flow may be
    another's by now. `wake` grows with every resume, so that a resume of a running flow is one too.
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


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """How a copier is. `version` is that of the orders it follows in this `term` (0: none yet); `held` is epochs of the
    sets that it has not let go, in full in `sets` where the orders had none.

    `beat` counts rounds of its data loop: it stands still when that loop is stuck. `stamp` is its clock, seconds.
    """

    copier_id: str
    recipe: str
    node: str
    term: int
    version: int
    stamp: float
    beat: int
    held: dict[str, int]
    progress: FlowProgress
    sets: tuple[PartitionSet, ...] = ()
