"""Decides who may own a lane, whether it needs an owner now, and the owner's first position."""

import msgspec

from engine.core.offset_map.map_runs import MapTail
from engine.core.position.position import ForeignPosition, Position, Seen
from engine.core.position.resume import RENEWED, ResumePoint
from policies.model import FlowName, TopicPartition


class LogEnds(msgspec.Struct, frozen=True, kw_only=True):
    """The start and end offsets of a lane's source and target log (an end is the next offset)."""

    source_start: int
    source_end: int
    target_start: int
    target_end: int


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """The new owner of a lane.

    `atomic`: it writes records and positions in transactions. `behind`: what is right before its first position.
    """

    producer_id: int
    producer_epoch: int
    first_sequence: int
    assignment_epoch: int
    deployment_id: str
    atomic: bool
    behind: Seen = Seen()


def transactional_id_of(flow: FlowName, lane: TopicPartition) -> str:
    """Return a lane's transactional id: the same for every owner, so that each owner fences the previous one."""
    return f"raymirror.{flow}.{lane.topic}-{lane.partition}"


class LaneIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """The ids of a lane's topics and clusters; empty if a broker does not report an id."""

    source_topic_id: str
    target_topic_id: str
    source_cluster_id: str
    target_cluster_id: str


def is_superseded(stored: Position, *, assignment_epoch: int, deployment_id: str, was_owned: bool) -> bool:
    """Whether a newer owner wrote this position, so that this copier may no longer own the lane.

    `was_owned`: this process had the lane and lost it. Then another deployment at the same epoch is newer too.
    """
    is_other = was_owned and stored.deployment_id != deployment_id
    return stored.assignment_epoch > assignment_epoch - is_other


def is_at_rest(stored: Position, ends: LogEnds) -> bool:
    """Whether a lane has nothing to copy, and its target ends where its position says.

    After a position that was written in a transaction, the target also has the marker of that transaction.
    """
    is_at_end = ends.source_start <= stored.source_next == ends.source_end
    return is_at_end and 0 <= ends.target_end - stored.target_next <= stored.atomic


def copied_leader_epoch(stored: object, found: ResumePoint) -> int:
    """Return the source leader epoch of the last copied batch; -1 if the copy does not end at the stored position.

    A position that was set may name the epoch of the record before it.
    """
    if isinstance(stored, ForeignPosition):
        return stored.source_leader_epoch
    is_there = isinstance(stored, Position) and not found.tail_records and found.how != RENEWED and found.cut < 0
    return stored.source_leader_epoch if is_there and isinstance(stored, Position) else -1


def first_position(
    owner: Owner, identity: LaneIdentity, found: ResumePoint, known: MapTail, source_leader_epoch: int
) -> Position:
    """Return the first position of a new owner. `known`: its offset map."""
    return Position(
        source_next=found.source_next,
        target_next=found.target_next,
        sequence=owner.first_sequence,
        producer_id=owner.producer_id,
        producer_epoch=owner.producer_epoch,
        runs=((owner.first_sequence, found.source_next),),
        assignment_epoch=owner.assignment_epoch,
        deployment_id=owner.deployment_id,
        source_leader_epoch=source_leader_epoch,
        source_topic_id=identity.source_topic_id,
        target_topic_id=identity.target_topic_id,
        source_cluster_id=identity.source_cluster_id,
        target_cluster_id=identity.target_cluster_id,
        map_generation=known.generation,
        map_blocks=known.blocks,
        map_source=known.start.source,
        map_target=known.start.target,
        map_first=known.start.first,
        map_tail=known.runs,
        atomic=owner.atomic,
        behind=owner.behind,
    )
