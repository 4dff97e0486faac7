"""Prints moves: the offsets of a group, where a migration stands, and what became of the producers of topics."""

from collections.abc import Sequence

from rich.table import Table

from actors.observability.colours import stdout_console
from actors.observability.instants import clock_text
from actors.observability.tables import plain_table
from engine.core.reports.move_progress import MigratingGroup, MoveProgress
from engine.services.dr.moves.back import topics_of
from engine.services.dr.moving import MoveOutcome
from policies.dr.operation_steps import OperationKind
from policies.dr.operations import DrOperation, OperationState
from policies.dr.topic_moves import TopicPart, TopicProgress, left_text
from policies.words import counted, named

_MOVE, _BACK = OperationKind.MOVE.value, OperationKind.MOVE_BACK.value


def show_group(outcome: MoveOutcome, *, dry: bool) -> None:
    """Print what became of a group."""
    if outcome.offsets:
        stdout_console().print(offsets_table(outcome))
    verb = "taken back" if dry is False and outcome.undone else "moved"
    for one in outcome.refused:
        print(f"group {outcome.group} is not {verb} ({one.name.value}): {one.why}")
    if outcome.refused:
        return
    if outcome.undone:
        print(f"the move of group {outcome.group} is taken back: start its consumers on the source again")
        return
    for topic in outcome.internal_topics:
        print(f"its topic {topic} is copied whole")
    if dry:
        print(f"group {outcome.group} could be moved now; nothing was changed")
        return
    for topic in outcome.starts:
        print(f"it has a start in {topic} on the target, for what producers will write there")
    print(f"group {outcome.group} is moved: start its consumers on the target, and not on the source again")
    for text in outcome.advice:
        print(text)


def offsets_table(outcome: MoveOutcome) -> Table:
    """Draw the offsets of a group on both sides."""
    table = plain_table(
        ["source partition", "target topic"],
        ["source offset", "target offset", "committed", "exact from"],
        ["why not"],
    )
    for row in outcome.offsets:
        numbers = (row.source_offset, row.target_offset, row.stored, row.exact_from)
        offsets = [str(one) if one >= 0 else "-" for one in numbers]
        why = row.why_not or ("" if row.is_exact else "before the exact offset: reads some records again")
        table.add_row(f"{row.topic}-{row.partition}", row.target_topic or "-", *offsets, why)
    return table


def show_progress(found: MoveProgress) -> None:
    """Print where a migration stands: topics, then groups."""
    if found.topics:
        stdout_console().print(topic_table(found.topics))
    if found.groups:
        stdout_console().print(group_table(found.groups))
    for subject, why in found.failed.items():
        print(f"not known: {subject}: {why}")
    gone = sum(one.part is TopicPart.PRODUCERS_MOVED for one in found.topics)
    ready = sum(one.part is TopicPart.PRODUCERS_NEXT for one in found.topics)
    print(
        f"{found.flow}: producers of {gone} of {counted(len(found.topics), 'topic')} have moved; those of {ready} may"
        " move (raymirror move --topics PATTERN)"
    )
    for gap in found.clients:
        print(f"{gap.name}: {gap.subject}: {gap.why}")
    for alias, addresses in found.addresses.items():
        print(f"bootstrap.servers of {alias}: {addresses}")
    for group in found.went_back:
        print(f"group {group} consumes on the source again: stop its consumers there, and move it again")
    for topic in found.written_since:
        print(f"topic {topic} was written to on the source after its producers had moved: stop these producers")


def topic_table(topics: Sequence[TopicProgress]) -> Table:
    """Draw topics with what is left of each."""
    table = plain_table(["topic", "on the target", "state"], ["groups moved", "left"], ["what is left", "since"])
    for one in topics:
        since = clock_text(one.at_ms) if one.at_ms >= 0 else ""
        counts = (str(one.moved), str(len(one.left)))
        table.add_row(one.topic, one.target_topic, one.part.value, *counts, left_text(one), since)
    return table


def group_table(groups: Sequence[MigratingGroup]) -> Table:
    """Draw groups with their states on both sides."""
    table = plain_table(["group", "state", "moved by", "at"], ["topics"], ["on the source", "on the target", "remark"])
    for one in groups:
        again = f"has consumed {counted(one.gone_on, 'partition')} on the source since" if one.gone_on else ""
        remark = again or ("read some records again" if one.repeats else "")
        at = clock_text(one.at_ms) if one.at_ms >= 0 else ""
        states = (one.source_state, one.target_state)
        table.add_row(one.group, one.part.value, one.who, at, str(len(one.topics)), *states, remark)
    return table


def show_moved(operation: DrOperation) -> None:
    """Say what the producers of an ended operation may do."""
    names = named(topics_of(operation))
    source, target = (repr(alias) for alias in (operation.source, operation.target))
    says = {
        (_MOVE, OperationState.FINISHED): f"may write to cluster {target} now, and not to the source again",
        (_MOVE, OperationState.ABORTED): f"write to cluster {source}, as before",
        (_BACK, OperationState.FINISHED): f"may write to cluster {source} again, and not to {target}",
        (_BACK, OperationState.ABORTED): f"write to cluster {target}, as before",
    }
    if said := says.get((operation.kind, operation.state)):
        print(f"the producers of {names} {said}")
