"""The stored state of a flow: typed entries, last value per key, as JSON that people can read.

    {"kind":"set","flow":"A->B","subject":"A->B/017"}  ->  {"format":1,"lanes":[...],"epoch":42}

Pure. The broker's compaction compares keys as bytes, so the members of a key and their order never change: an entry
that needs another key is another kind. Entries of unknown kinds or other flows stay as they are (see
`core/formats.py`).
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from typing import Literal

import msgspec

from engine.base.errors import StateUnreadable
from engine.base.unreadable import UNREADABLE
from engine.core.formats import check_format
from engine.core.reports.drill_report import DrillReport
from policies.dr.lent_config import LentConfig
from policies.dr.operations import DrOperation
from policies.model import FlowName, LaneName, TopicPartition

FORMAT_VERSION = 1

Stored = tuple[bytes | None, bytes | None]
"""Key and value of a record."""


StoredStop = Literal["flow", "deleted", "mirror", "failover", "failback"]
"""What a stored stop is part of."""


class Key(msgspec.Struct, frozen=True):
    """The subject of an entry: its kind, and a set id or a lane if the kind has several entries."""

    kind: str
    subject: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.subject}" if self.subject else self.kind


class Value(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all values; `format` is the format version that it was written in."""

    format: int = FORMAT_VERSION


class DesiredState(Value, frozen=True, kw_only=True):
    """The state that the operator wants for a flow; `who` set it.

    `stop`: what a stop is part of. With `flow` and `deleted` only this flow was stopped, and its mirror may stay. It is
    absent unless the state is `stopped`, and if a version has written it that did not tell them apart.
    `moved_topics`: those of `paused_topics` whose producers write to the target now, so that no resume copies them.
    `switched`: the stop is `failover`, and a switchover made it: earlier versions know no other stop for good.
    It is absent else.
    """

    state: Literal["running", "paused", "stopped"]
    paused_topics: tuple[str, ...] = ()
    who: str = ""
    at_ms: int = 0
    stop: StoredStop | msgspec.UnsetType = msgspec.UNSET
    moved_topics: tuple[str, ...] = ()
    switched: bool | msgspec.UnsetType = msgspec.UNSET

    def in_state(
        self,
        state: Literal["running", "paused", "stopped"],
        *,
        stop: StoredStop | msgspec.UnsetType = msgspec.UNSET,
        switched: bool | msgspec.UnsetType = msgspec.UNSET,
    ) -> "DesiredState":
        """Return it in another state: its topics stay, and nothing of an earlier stop does."""
        return msgspec.structs.replace(self, state=state, stop=stop, switched=switched)

    @property
    def failed_over(self) -> bool:
        """Whether a failover or a failback stopped the flow, so that no start copies it."""
        return self.state == "stopped" and self.stop in ("failover", "failback")

    @property
    def failover_stands(self) -> bool:
        """Whether it was a failover that stopped the flow, no switchover, and nothing has ended it since."""
        return self.state == "stopped" and self.stop == "failover" and self.switched is not True


class SetState(Value, frozen=True, kw_only=True):
    """The lanes of a partition set and its last assignment epoch."""

    lanes: tuple[LaneName, ...]
    epoch: int


class Quarantine(Value, frozen=True, kw_only=True):
    """The quarantine of a set or a lane: why, since when (Unix ms), after how many failures in a row."""

    reason: str
    since_ms: int
    failures: int = 0


class StateHolder(msgspec.Struct, frozen=True, kw_only=True):
    """The identity of a mirror. `instance_id` is new at each start of a mirror; restarted supervisors keep it."""

    deployment_id: str
    instance_id: str
    mirror: str
    version: str
    where: str


class Deployment(Value, frozen=True, kw_only=True):
    """The mirror that has the flow, and its lease.

    `term` grows with every owner, `renewals` with every renewal: a reader sees by these changes, not by clocks, that
    the owner is alive. The times are for people.
    """

    deployment_id: str
    instance_id: str
    mirror: str
    version: str
    where: str
    term: int
    since_ms: int
    renewals: int = 0
    at_ms: int = 0
    until_ms: int = 0
    released: bool = False

    def replaces(self, ours: "Deployment") -> bool:
        """Whether this owner came after this mirror: it has a later term, or is another instance with the same term."""
        return self.term > ours.term or (self.term == ours.term and self.instance_id != ours.instance_id)

    def __str__(self) -> str:
        since = datetime.fromtimestamp(self.since_ms / 1000, UTC).isoformat(timespec="seconds")
        mirror, _, command = self.mirror.removesuffix(")").partition(" (")  # a command adds its name in brackets
        who = f"command {command!r} beside mirror {mirror!r}" if command else f"mirror {mirror!r}"
        return (
            f"{who} on {self.where} (version {self.version}, deployment {self.deployment_id}, instance"
            f" {self.instance_id}, since {since}, term {self.term})"
        )


class Candidate(Value, frozen=True, kw_only=True):
    """A mirror that takes the flow if the owner stays silent: a warning to an owner that cannot reach the leader.

    It counts only after the owner's last renewal; that renewal refused an older candidate.
    """

    instance_id: str
    mirror: str
    where: str
    at_ms: int


class DrillRun(Value, frozen=True, kw_only=True):
    """Of `DRILL_SCOPE`: a drill that may have made something on the target.

    It is written before the drill makes anything, and removed after it has taken everything away. `beats` grows while
    the drill runs, so that another one sees that it is alive.
    """

    began_ms: int
    where: str
    beats: int = 0


class LastDrill(Value, frozen=True, kw_only=True):
    """Of `DRILL_SCOPE`: the report of the last drill of a flow."""

    report: DrillReport


class MovedOffset(msgspec.Struct, frozen=True):
    """One partition of a group that was moved: its source offset, and the offset that was committed on the target."""

    topic: str
    partition: int
    source_offset: int
    target_topic: str
    target_offset: int


class MovedGroup(Value, frozen=True, kw_only=True):
    """Of `MOVE_SCOPE`: a group whose consumers go to the target for good. `who` moved it, `at_ms` (Unix time).

    `state`: `moving` is written before the offsets are committed, `moved` after they were read back. `repeats`: the
    group reads some records again, because the offset of some partition is not exact.
    """

    state: Literal["moving", "moved"]
    at_ms: int
    who: str
    offsets: tuple[MovedOffset, ...]
    repeats: bool = False

    @property
    def has_moved(self) -> bool:
        """Whether the move has ended: the group's offsets on the target are its own."""
        return self.state == "moved"

    def read_on(self, commits: Mapping[TopicPartition, int]) -> int:
        """Return how many partitions have been committed further on the source since."""
        return sum(
            commits.get(TopicPartition(one.topic, one.partition), -1) > one.source_offset for one in self.offsets
        )


class MovedTopic(Value, frozen=True, kw_only=True):
    """Of `MOVE_SCOPE`: a topic whose producers write to the target for good.

    `operation`: what moved it, by its id, or the move of a group. `ends`: where its partitions end on the source, by
    number. `starts`: where producers begin on the target, if they write to another topic than the copy: consumers that
    move later start there.
    """

    at_ms: int
    who: str
    operation: str
    ends: tuple[int, ...]
    starts: tuple[int, ...] = ()


class OperationEntry(Value, frozen=True, kw_only=True):
    """An operation between the two clusters; of `OPERATION_SCOPE`."""

    operation: DrOperation


class OperationNotes(Value, frozen=True, kw_only=True):
    """Rows that an operation has stored beside it, as JSON; `DrOperation.notes` says which of them are in force."""

    rows: tuple[msgspec.Raw, ...]


class LentEntry(Value, frozen=True, kw_only=True):
    """Of `LENT_SCOPE`: a config that a failover has lent to a topic of the target, written before it is changed."""

    config: LentConfig


OPERATION_SCOPE = "operation"
"""Entries of operations have an owner of their own: the driver, while the flow's mirror owns the other entries."""


_STATE, _INTERNAL = "raymirror-state.", ".internal"
_ENDS = 2


def state_topic(source: str) -> str:
    """Name the topic that holds the state of flows from a source, on their target."""
    return f"{_STATE}{source}{_INTERNAL}"


def events_topic(source: str) -> str:
    """Name the topic that holds the events of flows from a source, on their target."""
    return f"raymirror-events.{source}.internal"


DESIRED = Key("desired")
DEPLOYMENT = Key("deployment")
CANDIDATE = Key("candidate")
LAST_DRILL = Key("drill")
DRILL_RUN = "drill-run"
MOVED, MOVED_TOPIC = "moved", "moved-topic"
MOVE_SCOPE = "move"
"""Entries of moved groups and topics have no owner either."""
LENT = "lent-config"
LENT_SCOPE = "lent"
"""Entries of lent configs have no owner either."""
DRILL_SCOPE = "drill"
"""Entries of drills have no owner: each drill writes its own, while the flow's mirror owns the other entries."""

KINDS: dict[str, type[Value]] = {
    DESIRED.kind: DesiredState,
    DEPLOYMENT.kind: Deployment,
    CANDIDATE.kind: Candidate,
    "set": SetState,
    "quarantine": Quarantine,
    LAST_DRILL.kind: LastDrill,
    DRILL_RUN: DrillRun,
    MOVED: MovedGroup,
    MOVED_TOPIC: MovedTopic,
    LENT: LentEntry,
    "operation": OperationEntry,
    "operation-notes": OperationNotes,
}


def set_key(set_id: str) -> Key:
    """Return the key of a partition set's entry."""
    return Key("set", set_id)


def quarantine_key(subject: str) -> Key:
    """Return the key of a set's or a lane's quarantine."""
    return Key("quarantine", subject)


def drill_run_key(run_id: str) -> Key:
    """Return the key of the entry of a drill that runs, or was killed."""
    return Key(DRILL_RUN, run_id)


def moved_key(group: str) -> Key:
    """Return the key of a moved group."""
    return Key(MOVED, group)


def moved_topic_key(topic: str) -> Key:
    """Return the key of a moved topic."""
    return Key(MOVED_TOPIC, topic)


def lent_key(topic: str, name: str) -> Key:
    """Return the key of a config that is lent to a topic; no name of a topic has a slash."""
    return Key(LENT, f"{topic}/{name}")


def last_drill_of(entries: Mapping[Key, Value]) -> DrillReport | None:
    """Return the report of the last drill, None if there was none."""
    last = entries.get(LAST_DRILL)
    return last.report if isinstance(last, LastDrill) else None


def operation_key(operation: str) -> Key:
    """Return the key of an operation, by its id."""
    return Key("operation", operation)


def notes_key(operation: str, name: str, version: int, part: int) -> Key:
    """Return the key of one part of an operation's notes."""
    return Key("operation-notes", f"{operation}/{name}/{version}/{part}")


def owner_of(entries: Mapping[Key, Value]) -> Deployment | None:
    """Return the entry of the mirror that has the flow, None if no mirror ever had it."""
    owner = entries.get(DEPLOYMENT)
    return owner if isinstance(owner, Deployment) else None


def desired_of(entries: Mapping[Key, Value]) -> DesiredState:
    """Return the wanted state of a flow by its stored entries: it runs if nothing is stored."""
    wanted = entries.get(DESIRED)
    return wanted if isinstance(wanted, DesiredState) else DesiredState(state="running")


def with_moved(wanted: DesiredState, topics: Iterable[str]) -> DesiredState:
    """Return a wanted state with further topics whose producers write to the target now."""
    moved = tuple(dict.fromkeys((*wanted.moved_topics, *topics)))
    paused = tuple(dict.fromkeys((*wanted.paused_topics, *moved)))
    return msgspec.structs.replace(wanted, paused_topics=paused, moved_topics=moved)


def without_moved(wanted: DesiredState, topics: Collection[str]) -> DesiredState:
    """Return a wanted state in which some of the moved topics are copied again."""
    freed = {one for one in wanted.moved_topics if one in topics}
    return msgspec.structs.replace(
        wanted,
        paused_topics=tuple(one for one in wanted.paused_topics if one not in freed),
        moved_topics=tuple(one for one in wanted.moved_topics if one not in freed),
    )


def failed_over_at(entries: Mapping[Key, Value]) -> int:
    """Return when a flow was failed over, by its stored entries (Unix ms); -1: it was not, or was failed back since."""
    wanted = desired_of(entries)
    return wanted.at_ms if wanted.state == "stopped" and wanted.stop == "failover" else -1


def is_state_topic(topic: str) -> bool:
    """Whether a topic holds states of flows, whatever their source."""
    return topic.startswith(_STATE) and topic.endswith(_INTERNAL)


def flows_in(records: Iterable[Stored], scope: str) -> tuple[FlowName, ...]:
    """Return the flows that have entries of a scope in a state topic."""
    found: set[FlowName] = set()
    for key, _ in records:
        flow, _, one = _owner_named(key).partition(" ")
        if one == scope and len(ends := flow.split("->")) == _ENDS:
            found.add(FlowName(*ends))
    return tuple(sorted(found))


def _owner_named(key: bytes | None) -> str:
    """Return what an entry's key names as its owner; empty for anything else."""
    try:
        return msgspec.json.decode(key or b"", type=_WireKey).flow
    except UNREADABLE:
        return ""


class _WireKey(msgspec.Struct, frozen=True, omit_defaults=True):
    kind: str
    flow: str
    subject: str = ""


class _Head(msgspec.Struct):
    format: int = 1


class StateCodec:
    """Converts the entries of one flow to records of its state topic and back.

    `scope`: entries of another owner than the flow's mirror (`StateOptions.scope`). Their keys name it beside the flow,
    so a mirror of any version leaves them alone: it would else write its own copy of them again after a fence.
    """

    def __init__(self, flow: FlowName, topic: str, scope: str = "") -> None:
        self.flow, self.topic = flow, topic
        self._owned = f"{flow} {scope}" if scope else str(flow)

    def encode(self, entries: Mapping[Key, Value | None]) -> dict[bytes, bytes | None]:
        """Encode entries, None as a tombstone. Raises TypeError for a value of another kind than its key's."""
        return {self._key(key): self._value(key, value) for key, value in entries.items()}

    def _key(self, key: Key) -> bytes:
        return msgspec.json.encode(_WireKey(key.kind, self._owned, key.subject))

    def _value(self, key: Key, value: Value | None) -> bytes | None:
        if type(value) not in (KINDS.get(key.kind), type(None)) or key.kind not in KINDS:
            raise TypeError(f"{type(value).__name__} under the key of {key}")
        return None if value is None else msgspec.json.encode(msgspec.structs.replace(value, format=FORMAT_VERSION))

    def own(self, records: Iterable[Stored]) -> dict[bytes, bytes]:
        """Return the last value of every entry of this flow, also of unknown kinds. `records`: oldest first."""
        found: dict[bytes, bytes] = {}
        for key, value in records:
            if key is None or self._name(key) is None:
                continue
            if value is None:
                found.pop(key, None)
            else:
                found[key] = value
        return found

    def decode(self, records: Iterable[Stored]) -> dict[Key, Value]:
        """Decode the known entries of a whole topic, oldest record first. Raises NewerFormat, StateUnreadable."""
        found: dict[Key, Value] = {}
        for key, raw in self.own(records).items():
            name = self._name(key)
            value = None if name is None else self._read(name, raw)
            if name is not None and value is not None:
                found[name] = value
        return found

    def _name(self, raw: bytes) -> Key | None:
        """Return the key of an entry of this flow, None for anything else."""
        try:
            key = msgspec.json.decode(raw, type=_WireKey)
        except UNREADABLE:
            return None
        return Key(key.kind, key.subject) if key.flow == self._owned else None

    def _read(self, key: Key, raw: bytes) -> Value | None:
        kind = KINDS.get(key.kind)
        try:
            check_format(
                msgspec.json.decode(raw, type=_Head).format, FORMAT_VERSION, f"topic {self.topic}: entry {key}"
            )
            return None if kind is None else msgspec.json.decode(raw, type=kind)
        except UNREADABLE as error:
            if kind is None:
                return None
            raise StateUnreadable(self.topic, str(key), str(error)) from None
