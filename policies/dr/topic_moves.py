"""Decides whether the producers of topics may move to the target: after all consumers of these topics.

    a group that reads the topic on the source           | its part           | its producers
    -----------------------------------------------------+--------------------+----------------------------------
    moved, and it does not consume on the source again   | MOVED              | may move
    moved, and it consumes on the source since           | BACK               | wait: it would read records twice
    its move was begun and not ended                     | MOVING             | wait
    not moved, and it has members                        | ACTIVE             | wait: it would miss new records
    not moved, no members, its commits advance           | ASSIGNS            | wait: a consumer with assign() runs
    a share or streams group, not moved                  | SHARE, STREAMS     | wait
    not moved, no members, the flow mirrors it           | STOPPED            | wait, or leave it behind by name
    not moved, no members, the flow does not mirror it   | UNUSED             | may move: nobody consumes with it

Producers go last, because a consumer on the source never sees what producers write to the target.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import Enum

import msgspec

from policies.dr.advice import GROUP, LEAVE_GROUP, MOVE_GROUP
from policies.groups import GroupState
from policies.words import counted, named

_NAMED = 5


class GroupPart(Enum):
    """Where a group stands that reads a topic; the names are stable."""

    MOVED = "moved"
    BACK = "consumes-on-source-again"
    MOVING = "moving"
    ACTIVE = "on-source"
    ASSIGNS = "commits-without-members"
    SHARE = "share-group"
    STREAMS = "streams-group"
    STOPPED = "stopped"
    UNUSED = "unused"
    UNKNOWN = "unknown"

    @property
    def lets_producers_move(self) -> bool:
        """Whether producers may move while the group stands there."""
        return self in (GroupPart.MOVED, GroupPart.UNUSED)


class ReadingGroup(msgspec.Struct, frozen=True, kw_only=True):
    """What both clusters say of a group. `source`, `target`: None if they do not tell.

    `move`: the stored state of its move, empty if there is none. `gone_on`: its partitions that were committed on the
    source since. `advances`: its commits advance while it has no members. `is_mirrored`: the flow selects it.
    """

    group: str
    kind: str = ""
    move: str = ""
    source: GroupState | None
    target: GroupState | None
    gone_on: int = 0
    advances: bool = False
    is_mirrored: bool = True
    topics: frozenset[str] = frozenset()


def part_of(one: ReadingGroup) -> GroupPart:
    """Return where a group stands; see the table."""
    if one.source is None:
        return GroupPart.UNKNOWN
    if one.move == "moved":
        is_back = one.gone_on or one.advances or one.source is GroupState.ACTIVE
        return GroupPart.BACK if is_back else GroupPart.MOVED
    if one.move:
        return GroupPart.MOVING
    if one.kind == "share":
        return GroupPart.SHARE
    if one.kind == "streams":
        return GroupPart.STREAMS
    if one.source is GroupState.ACTIVE:
        return GroupPart.ACTIVE
    if one.advances:
        return GroupPart.ASSIGNS
    return GroupPart.STOPPED if one.is_mirrored else GroupPart.UNUSED


# --- the state of a migration ----------------------------------------------------------------------------------------


class TopicPart(Enum):
    """Where a topic stands in a migration; the names are stable."""

    CONSUMERS_LEFT = "consumers-left"
    PRODUCERS_NEXT = "producers-next"
    """All its consumers have moved, so its producers may."""
    PRODUCERS_MOVED = "producers-moved"


class TopicProgress(msgspec.Struct, frozen=True, kw_only=True):
    """A topic of the flow: how many of its groups have moved, which are left and why. `at_ms`: when producers moved.

    `written_since`: records that came on the source after its producers had moved, as offsets; -1: not known.
    """

    topic: str
    target_topic: str
    part: TopicPart
    moved: int
    left: Mapping[str, str]
    at_ms: int = -1
    written_since: int = 0


def topic_progress(
    topics: Mapping[str, str], groups: Iterable[ReadingGroup], moved_at_ms: Mapping[str, int], grown: Mapping[str, int]
) -> list[TopicProgress]:
    """Return where topics stand, by name. `topics`: their copies. `moved_at_ms`, `grown`: of those that have moved."""
    known = list(groups)
    return [
        _progress(name, copy, [one for one in known if name in one.topics], moved_at_ms.get(name, -1), grown)
        for name, copy in sorted(topics.items())
    ]


def _progress(topic: str, copy: str, groups: list[ReadingGroup], at_ms: int, grown: Mapping[str, int]) -> TopicProgress:
    parts = {one.group: part_of(one) for one in groups}
    left = {group: part.value for group, part in sorted(parts.items()) if not part.lets_producers_move}
    waits = TopicPart.CONSUMERS_LEFT if left else TopicPart.PRODUCERS_NEXT
    return TopicProgress(
        topic=topic,
        target_topic=copy,
        part=TopicPart.PRODUCERS_MOVED if at_ms >= 0 else waits,
        moved=sum(part is GroupPart.MOVED for part in parts.values()),
        left=left,
        at_ms=at_ms,
        written_since=grown.get(topic, -1) if at_ms >= 0 else 0,
    )


# --- what keeps producers from moving --------------------------------------------------------------------------------

SHARE_ADVICE = (
    "a share group cannot move, because brokers keep states of single records for it (KIP-932): stop its producers, let"
    " it read to the end on the source, and stop it; give the group on the target share.auto.offset.reset = latest, and"
    " start it there before the producers"
)
STREAMS_ADVICE = (
    "a streams group cannot move, because brokers keep its topology and tasks (KIP-1071): stop it, delete its state"
    " folders, and start it on the target with a new application.id, where it reads its input again"
)
_REASONS: Mapping[GroupPart, tuple[str, str]] = {
    GroupPart.ACTIVE: ("groups-left", "it consumes on the source: move it first: {move}"),
    GroupPart.STOPPED: (
        "groups-left",
        "it has not moved: {move}; if nobody needs it any more: {leave}",
    ),
    GroupPart.MOVING: ("groups-left", "its move was begun and has not ended: {move}"),
    GroupPart.UNKNOWN: ("groups-left", "its state on the source is not known"),
    GroupPart.BACK: (
        "groups-back",
        "it consumes on the source again: stop it there, and move it again: {move}",
    ),
    GroupPart.ASSIGNS: (
        "commits-without-members",
        "its commits advance although it has no members: find the consumer with assign(), and move it first",
    ),
    GroupPart.SHARE: (
        "share-group",
        SHARE_ADVICE + ", then: {leave}",
    ),
    GroupPart.STREAMS: (
        "streams-group",
        STREAMS_ADVICE + ", then: {leave}",
    ),
}


def groups_in_the_way(groups: Iterable[ReadingGroup], left: Collection[str] = ()) -> Iterator[tuple[str, str]]:
    """Yield why producers must wait, by name; `left`: groups that the operator leaves behind."""
    for one in groups:
        reason = _REASONS.get(part_of(one))
        if reason is None or one.group in left:
            continue
        name, why = reason
        ways = {"move": MOVE_GROUP.given("", GROUP.given(one.group)), "leave": LEAVE_GROUP.given(one.group)}
        yield name, f"group {one.group} reads {named(sorted(one.topics))}: {why.format(**ways)}"


def topics_in_the_way(fed: Mapping[str, Collection[str]]) -> Iterator[tuple[str, str]]:
    """Yield the topics that feed further clusters (`fed`: their aliases), which would miss new records."""
    for topic, others in sorted(fed.items()):
        if others:
            why = f"topic {topic} is also copied to {', '.join(sorted(others))}, which would miss what producers write"
            yield "source-feeds-another-cluster", f"{why} to the target: copy it there from the target first"


def left_text(one: TopicProgress) -> str:
    """Say what is left of a topic, in a few words."""
    if one.part is TopicPart.PRODUCERS_MOVED:
        if one.written_since > 0:
            return f"{counted(one.written_since, 'record')} written on the source since: stop those producers"
        return ""
    if not one.left:
        return "its producers"
    names = [f"{group} ({part})" for group, part in list(one.left.items())[:_NAMED]]
    more = [f"and {len(one.left) - _NAMED} more"] if len(one.left) > _NAMED else []
    return ", ".join([*names, *more])
