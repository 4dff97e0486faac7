"""Messages about one round between the metadata actor and a Spark job: the request with the memory, and the plan.

Both are bounded. A plan has at most MOST_CHANGES changes: what is beyond is counted (`more`), and found again by the
next round, which follows at once. Memory is compressed: most topics set the same few configs, if any.
"""

import zlib
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from engine.flow.config_history.look import pack_look
from engine.flow.config_sync.planning import Scope, SyncPlan
from policies.model import FlowName
from policies.sync.config_sync import Conflict, Known

MOST_CHANGES = 10_000
"""Changes in one plan, and conflicts: some 300 bytes each before compression."""
MOST_UNREAD = 1_000
"""Topics that could not be read, with the reason, in one plan."""
Memory = dict[str, Mapping[str, str]]


class ClusterIds(NamedTuple):
    """The ids of the clusters behind a flow's aliases, as the process that will write sees them; empty: not known."""

    source: str = ""
    target: str = ""


class RoundRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A round to plan: of which flow, what it covers, between which clusters, and the packed memory before it.

    `whole`: the plan is to come with a look, for which all configs of every copy are read.
    """

    flow: FlowName
    configs: bool
    acls: bool
    memory: bytes
    clusters: ClusterIds = ClusterIds()
    whole: bool = False

    @property
    def scope(self) -> Scope:
        """Return what the round covers; discovery creates and grows copies."""
        return Scope(configs=self.configs, acls=self.acls, shapes=False, left=self.whole)


class RoundPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The plan of a round, cut to its bounds, and the packed memory after it.

    `more`: changes beyond the bound. `more_conflicts`: by kind, conflicts beyond it. `more_unread`: likewise. `look`: a
    packed look, which is not cut; empty if none was asked for.
    """

    plan: SyncPlan
    memory: bytes
    more: int = 0
    more_conflicts: dict[str, int] = {}
    more_unread: int = 0
    look: bytes = b""


def pack_memory(known: Known) -> bytes:
    """Pack a memory: topics with the same configs share one entry."""
    shared: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for topic in sorted(known):
        if known[topic]:
            shared.setdefault(tuple(sorted(known[topic].items())), []).append(topic)
    return zlib.compress(msgspec.msgpack.encode([[dict(configs), topics] for configs, topics in shared.items()]), 1)


def unpack_memory(data: bytes) -> Memory:
    """Unpack a memory; the topics of an entry share one mapping. Raises zlib.error, msgspec.MsgspecError."""
    entries = msgspec.msgpack.decode(zlib.decompress(data), type=list[tuple[dict[str, str], list[str]]])
    return {topic: configs for configs, topics in entries for topic in topics}


NO_MEMORY = pack_memory({})


def cut(plan: SyncPlan, known: Known, most: int = MOST_CHANGES) -> RoundPlan:
    """Bound a plan. The memory stays whole: it has what is still to be removed, also beyond the bound."""
    unread = dict(list(plan.unread.items())[:MOST_UNREAD])
    return RoundPlan(
        plan=msgspec.structs.replace(
            plan,
            changes=plan.changes[:most],
            conflicts=plan.conflicts[:most],
            unread=unread,
            left=(),  # nobody reads them in a mirror
            left_acls=(),
            look=None,
        ),
        memory=pack_memory(known),
        more=len(plan.changes[most:]),
        more_conflicts=_kinds(plan.conflicts[most:]),
        more_unread=len(plan.unread) - len(unread),
        look=pack_look(plan.look) if plan.look is not None else b"",
    )


def _kinds(conflicts: tuple[Conflict, ...]) -> dict[str, int]:
    return dict(Counter(one.kind.value for one in conflicts))
