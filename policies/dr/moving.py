"""Decides whether a consumer group may move to the target for good: its consumers stop on the source, and start there.

A group moves if its offsets mean the same on both clusters and nobody changes them: no members on either side, no
commits without members (consumers that use `assign()`), every partition translated exactly, and none further on the
target. KIP-848 groups move like classic ones: their offsets are the same, and an empty classic group becomes one of
KIP-848 when the first consumer of that protocol joins. Share and streams groups have more than offsets.

A Streams application with a classic group has its stores in changelog topics, and data between its parts in repartition
topics. On the target it looks for topics of the same names. So it moves if copies keep their names, and the flow copies
these topics whole; its state folders hold offsets of the source, so they must be deleted.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum

import msgspec

from policies.dr.advice import ACCEPT_REPEATS, BACKWARDS, FAILOVER_BACK, LEAVE_UNCOPIED
from policies.dr.topic_moves import SHARE_ADVICE, STREAMS_ADVICE
from policies.groups import GroupState, unsupported
from policies.model import TopicPartition
from policies.words import counted

_CHANGELOG, _REPARTITION = "-changelog", "-repartition"


class MoveRefusalName(Enum):
    """Why a group is not moved; the names are stable."""

    KIND = "kind-of-group"
    SHARE = "share-group"
    STREAMS_GROUP = "streams-group"
    STREAMS = "streams-application"
    ABSENT = "no-such-group"
    SOURCE_MEMBERS = "members-on-source"
    TARGET_MEMBERS = "members-on-target"
    COMMITS = "commits-without-members"
    NOT_COPIED = "topics-not-copied"
    NOT_EXACT = "not-exact"
    SKIPS = "skips-records"
    AHEAD = "ahead-on-target"
    NOT_COMMITTED = "not-committed"
    INTERNAL = "internal-topics-not-copied"
    NOT_MOVED = "not-moved"
    CONSUMED = "consumed-on-target"
    PRODUCERS_MOVED = "producers-moved"


class MoveRefusal(msgspec.Struct, frozen=True):
    """One reason, and a sentence that says what would be right."""

    name: MoveRefusalName
    why: str


class MovingGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A group on both clusters. `before`, `after`: its commits on the source at two moments, some seconds apart.

    `protocol_type`, `kind`: as the source lists it. `topics`: all topics of the source; `copied`: those that the flow
    copies. `others`: all groups of the source. `keeps_names`: copies have the names of their topics.
    """

    group: str
    protocol_type: str = "consumer"
    kind: str = ""
    source: GroupState
    target: GroupState
    before: Mapping[TopicPartition, int]
    after: Mapping[TopicPartition, int]
    topics: frozenset[str] = frozenset()
    copied: frozenset[str] = frozenset()
    others: frozenset[str] = frozenset()
    keeps_names: bool = False

    @property
    def internal(self) -> tuple[str, ...]:
        """The changelog and repartition topics of the group, if it is a Streams application."""
        return tuple(sorted(internal_topics(self.group, self.topics, self.others)))


class MovingOffset(msgspec.Struct, frozen=True, kw_only=True):
    """One partition of the group. Offsets are -1 if there is none; `why_not`: why it has no exact target offset.

    `exact_from`: the first source offset that raymirror's own map answers; -1: not known. `skips`: the target has
    deleted records that it has not read, and the source has them.
    """

    topic: str
    partition: int
    source_offset: int
    target_topic: str = ""
    target_offset: int = -1
    stored: int = -1
    is_copied: bool = True
    is_exact: bool = True
    why_not: str = ""
    exact_from: int = -1
    skips: bool = False


def refused_group(one: MovingGroup) -> list[MoveRefusal]:
    """Return why a group may not be moved as it stands; empty if it may."""
    return list(_refused_group(one))


def _refused_group(one: MovingGroup) -> Iterator[MoveRefusal]:
    if one.kind in _OTHER_KINDS:
        yield _OTHER_KINDS[one.kind]
        return
    if (what := unsupported(one.protocol_type, one.kind)) is not None:
        why = f"it is a {what}: more than committed offsets would have to move; start it anew on the target"
        yield MoveRefusal(MoveRefusalName.KIND, why)
        return
    if one.source is GroupState.ABSENT and not one.after:
        yield MoveRefusal(MoveRefusalName.ABSENT, "it has neither members nor commits on the source; check its name")
        return
    if one.internal:
        yield from _refused_streams(one)
    if one.source is GroupState.ACTIVE:
        yield MoveRefusal(MoveRefusalName.SOURCE_MEMBERS, "it has members on the source: stop its consumers first")
    elif moved := sorted(lane for lane, offset in one.after.items() if one.before.get(lane) != offset):
        why = f"its commits move although it has no members ({moved[0]}): a consumer with assign() runs; stop it first"
        yield MoveRefusal(MoveRefusalName.COMMITS, why)
    if one.target is GroupState.ACTIVE:
        yield MoveRefusal(MoveRefusalName.TARGET_MEMBERS, "it has members on the target: stop its consumers there")


_OTHER_KINDS = {
    "share": MoveRefusal(MoveRefusalName.SHARE, SHARE_ADVICE),
    "streams": MoveRefusal(MoveRefusalName.STREAMS_GROUP, STREAMS_ADVICE),
}


def _refused_streams(one: MovingGroup) -> Iterator[MoveRefusal]:
    own = one.internal
    anew = (
        "start it on the target with a new application id, or reset it there (kafka-streams-application-reset), and"
        " delete its state folders"
    )
    if not one.keeps_names:
        why = (
            f"it is a Streams application ({own[0]}), and copies of its changelogs have other names than it looks for:"
            f" {anew}"
        )
        yield MoveRefusal(MoveRefusalName.STREAMS, why)
    elif missing := sorted(set(own) - one.copied):
        why = (
            f"it is a Streams application, and the flow does not copy {counted(len(missing), 'topic')} of it"
            f" ({missing[0]}): add them to topics, or {anew}"
        )
        yield MoveRefusal(MoveRefusalName.STREAMS, why)


def internal_topics(group: str, topics: Iterable[str], others: Iterable[str] = ()) -> list[str]:
    """Return the topics that Kafka Streams makes for an application with this id (Kafka: InternalTopicManager).

    `others`: all groups. A topic of `app-x` begins with `app-` too, and belongs to the longer id.
    """
    longer = tuple(f"{other}-" for other in others if other.startswith(f"{group}-"))
    own = [one for one in topics if one.startswith(f"{group}-") and one.endswith((_CHANGELOG, _REPARTITION))]
    return [one for one in own if not one.startswith(longer)]


def state_folders(group: str) -> str:
    """Say which state folders of a Streams application must be deleted."""
    return (
        f"before it starts on the target, delete STATE_DIR/{group} on each of its hosts (state.dir, by default"
        " /tmp/kafka-streams): it holds offsets of the source's changelogs"
    )


def refused_offsets(rows: Iterable[MovingOffset], *, leaves_uncopied: bool, repeats: bool = False) -> list[MoveRefusal]:
    """Return why the offsets of a group cannot be moved; empty if they can.

    `repeats`: an offset before the exact one will do.
    """
    known = list(rows)
    found: list[MoveRefusal] = []
    if (left := [row for row in known if not row.is_copied]) and not leaves_uncopied:
        why = (
            f"the flow does not copy {counted(len(left), 'partition')} that it reads, {_name(left[0])} for example"
            f" ({left[0].why_not}): copy that topic, or leave its offset behind: {LEAVE_UNCOPIED.given()}"
        )
        found.append(MoveRefusal(MoveRefusalName.NOT_COPIED, why))
    copied = [row for row in known if row.is_copied]
    if not copied:
        found.append(MoveRefusal(MoveRefusalName.NOT_COPIED, "the flow copies none of the topics that it reads"))
    if near := [row for row in copied if row.target_offset < 0 or not (row.is_exact or repeats)]:
        why = f"{counted(len(near), 'partition')} without an exact offset on the target, {_inexact(near[0])}"
        found.append(MoveRefusal(MoveRefusalName.NOT_EXACT, why))
    if skips := [row for row in copied if row.skips]:
        row = skips[0]
        why = (
            f"it would skip records in {counted(len(skips), 'partition')}: of {_name(row)} the target's retention has"
            f" deleted what lies below {row.target_offset}, and the source has it from {row.source_offset} on: let the"
            " group read it on the source first"
        )
        found.append(MoveRefusal(MoveRefusalName.SKIPS, why))
    if ahead := [row for row in copied if 0 <= row.target_offset < row.stored]:
        row = ahead[0]
        why = (
            f"it is further on the target in {counted(len(ahead), 'partition')}: {_name(row)} at {row.stored}, and"
            f" {row.target_offset} would be exact; if nobody consumed there: {BACKWARDS.given()}"
        )
        found.append(MoveRefusal(MoveRefusalName.AHEAD, why))
    return found


def _name(row: MovingOffset) -> str:
    return f"{row.topic}-{row.partition}"


def _inexact(row: MovingOffset) -> str:
    """Say why an offset is not exact, and what would make it so."""
    why = f"{_name(row)} for example: {row.why_not or 'only known from MM2 syncs'}"
    if 0 <= row.source_offset < row.exact_from:
        why += (
            f"; raymirror's own map begins at offset {row.exact_from} of the source, and the group is at"
            f" {row.source_offset}: let it consume up to there, and move it then"
        )
        if row.target_offset >= 0:
            why += f", or let it read some records again: {ACCEPT_REPEATS.given()}"
    return why


def refused_undo(rows: Iterable[MovingOffset], target: GroupState, moved_topics: Iterable[str]) -> list[MoveRefusal]:
    """Return why a group cannot go back to the source; empty if it can.

    `rows`: its offsets, translated from the source now. `moved_topics`: those it reads whose producers moved.
    """
    found: list[MoveRefusal] = []
    if gone := sorted(moved_topics):
        why = f"the producers of {gone[0]} have moved: on the source it would miss what they write now"
        found.append(MoveRefusal(MoveRefusalName.PRODUCERS_MOVED, why))
    if target is GroupState.ACTIVE:
        found.append(
            MoveRefusal(MoveRefusalName.TARGET_MEMBERS, "it has members on the target: stop its consumers there")
        )
    if ahead := [row for row in rows if row.is_copied and row.stored > row.target_offset]:
        why = (
            f"it has consumed on the target in {counted(len(ahead), 'partition')}, {_name(ahead[0])} for example: bring"
            f" its offsets back first: {FAILOVER_BACK.given()}"
        )
        found.append(MoveRefusal(MoveRefusalName.CONSUMED, why))
    return found
