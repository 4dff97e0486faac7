"""Decides whether a consumer group may move to the target for good: its consumers stop on the source, and start there.

A group moves if its offsets mean the same on both clusters and nobody changes them: no members on either side, no
commits without members (consumers that use `assign()`), every partition translated exactly, and none further on the
target. KIP-848 groups move like classic ones: their offsets are the same, and an empty classic group becomes one of
KIP-848 when the first consumer of that protocol joins. Share and streams groups have more than offsets.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum

import msgspec

from policies.groups import GroupState, unsupported
from policies.model import TopicPartition
from policies.words import counted

_CHANGELOG, _REPARTITION = "-changelog", "-repartition"


class MoveRefusalName(Enum):
    """Why a group is not moved; the names are stable."""

    KIND = "kind-of-group"
    STREAMS = "streams-application"
    ABSENT = "no-such-group"
    SOURCE_MEMBERS = "members-on-source"
    TARGET_MEMBERS = "members-on-target"
    COMMITS = "commits-without-members"
    NOT_COPIED = "topics-not-copied"
    NOT_EXACT = "not-exact"
    AHEAD = "ahead-on-target"
    NOT_COMMITTED = "not-committed"


class MoveRefusal(msgspec.Struct, frozen=True):
    """One reason, and a sentence that says what would be right."""

    name: MoveRefusalName
    why: str


class MovingGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A group on both clusters. `before`, `after`: its commits on the source at two moments, some seconds apart.

    `protocol_type`, `kind`: as the source lists it. `topics`: all topics of the source.
    """

    group: str
    protocol_type: str = "consumer"
    kind: str = ""
    source: GroupState
    target: GroupState
    before: Mapping[TopicPartition, int]
    after: Mapping[TopicPartition, int]
    topics: frozenset[str] = frozenset()


class MovingOffset(msgspec.Struct, frozen=True, kw_only=True):
    """One partition of the group. Offsets are -1 if there is none; `why_not`: why it has no exact target offset."""

    topic: str
    partition: int
    source_offset: int
    target_topic: str = ""
    target_offset: int = -1
    stored: int = -1
    is_copied: bool = True
    is_exact: bool = True
    why_not: str = ""


def refused_group(one: MovingGroup) -> list[MoveRefusal]:
    """Return why a group may not be moved as it stands; empty if it may."""
    return list(_refused_group(one))


def _refused_group(one: MovingGroup) -> Iterator[MoveRefusal]:
    if (what := unsupported(one.protocol_type, one.kind)) is not None:
        why = f"it is a {what}: more than committed offsets would have to move; start it anew on the target"
        yield MoveRefusal(MoveRefusalName.KIND, why)
        return
    if one.source is GroupState.ABSENT and not one.after:
        yield MoveRefusal(MoveRefusalName.ABSENT, "it has neither members nor commits on the source; check its name")
        return
    if own := sorted(internal_topics(one.group, one.topics)):
        why = (
            f"it is a Kafka Streams application ({own[0]}): its changelogs and state folders would have to move, too;"
            " start it on the target with a new application id, or reset it there (kafka-streams-application-reset)"
        )
        yield MoveRefusal(MoveRefusalName.STREAMS, why)
    if one.source is GroupState.ACTIVE:
        yield MoveRefusal(MoveRefusalName.SOURCE_MEMBERS, "it has members on the source: stop its consumers first")
    elif moved := sorted(lane for lane, offset in one.after.items() if one.before.get(lane) != offset):
        why = f"its commits move although it has no members ({moved[0]}): a consumer with assign() runs; stop it first"
        yield MoveRefusal(MoveRefusalName.COMMITS, why)
    if one.target is GroupState.ACTIVE:
        yield MoveRefusal(MoveRefusalName.TARGET_MEMBERS, "it has members on the target: stop its consumers there")


def internal_topics(group: str, topics: Iterable[str]) -> list[str]:
    """Return the topics that Kafka Streams makes for an application with this id (Kafka: InternalTopicManager)."""
    return [one for one in topics if one.startswith(f"{group}-") and one.endswith((_CHANGELOG, _REPARTITION))]


def refused_offsets(rows: Iterable[MovingOffset], *, leaves_uncopied: bool) -> list[MoveRefusal]:
    """Return why the offsets of a group cannot be moved exactly; empty if they can."""
    known = list(rows)
    found: list[MoveRefusal] = []
    if (left := [row for row in known if not row.is_copied]) and not leaves_uncopied:
        why = (
            f"the flow does not copy {counted(len(left), 'partition')} that it reads, {_name(left[0])} for example"
            f" ({left[0].why_not}): copy that topic, or leave its offset behind: --leave-uncopied"
        )
        found.append(MoveRefusal(MoveRefusalName.NOT_COPIED, why))
    copied = [row for row in known if row.is_copied]
    if not copied:
        found.append(MoveRefusal(MoveRefusalName.NOT_COPIED, "the flow copies none of the topics that it reads"))
    if near := [row for row in copied if row.target_offset < 0 or not row.is_exact]:
        why = (
            f"{counted(len(near), 'partition')} without an exact offset on the target, {_name(near[0])} for example:"
            f" {near[0].why_not or 'only known from MM2 syncs'}"
        )
        found.append(MoveRefusal(MoveRefusalName.NOT_EXACT, why))
    if ahead := [row for row in copied if 0 <= row.target_offset < row.stored]:
        row = ahead[0]
        why = (
            f"it is further on the target in {counted(len(ahead), 'partition')}: {_name(row)} at {row.stored}, and"
            f" {row.target_offset} would be exact; if nobody consumed there: --backwards"
        )
        found.append(MoveRefusal(MoveRefusalName.AHEAD, why))
    return found


def _name(row: MovingOffset) -> str:
    return f"{row.topic}-{row.partition}"
