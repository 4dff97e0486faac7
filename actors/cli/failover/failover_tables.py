"""Prints the result of `raymirror failover`: tables and sentences."""

from collections.abc import Mapping, Sequence

from rich.console import RenderableType
from rich.table import Table

from actors.cli.failover.failover_outcome import Result
from actors.model.states import way_back_text
from actors.observability.colours import stdout_console
from actors.observability.found_by import found_text
from actors.observability.instants import clock_text
from actors.observability.shared_reasons import SharedReasons
from actors.observability.tables import plain_table
from engine.core.reports.drain import PartitionDrain, uncounted
from engine.core.reports.rpo import TopicRpo
from engine.flow.failback.lent_configs import LentConfigs
from engine.flow.groups.failback import FailbackRow
from engine.flow.groups.status import GroupPartitionStatus, GroupStatus
from engine.flow.ownership.other_writers import OtherWriters
from engine.services.dr.lifting import LiftedFences
from engine.services.quarantine import LeftOutRecords
from policies.words import counted

ROWS = 50
WILL_STOP = (
    "these partitions stop when raymirror run copies them again (event foreign_writer), unless MM2 copied the records"
    " from the source; to append behind them, set raymirror.foreign.writer = continue before"
)
WILL_GO_ON = (
    "raymirror run appends behind them (raymirror.foreign.writer = continue), with an event foreign_writer for each"
    " partition"
)


def show_outcome(
    rpo: Sequence[TopicRpo],
    partitions: Sequence[PartitionDrain],
    standing: GroupStatus,
    *,
    gone: str,
    are_listed: bool = False,
) -> None:
    """Print what a failover left: topics, partitions that are not drained, and groups that are not equal.

    `are_listed`: every partition has been printed already, with the reason why it is not drained.
    """
    left = [row for row in partitions if row.why and not row.heartbeats]
    if gone:
        print(f"the source does not answer ({gone}): stopped at the point reached; what it holds beyond is not known")
    elif left:
        print(f"stopped at the point reached: {len(left)} of {counted(len(partitions), 'partition')} not drained")
    console = stdout_console()
    console.print(rpo_table(rpo))
    if left and not are_listed:
        console.print(drain_table(left[:ROWS]))
        if len(left) > ROWS:
            print(f"and {counted(len(left) - ROWS, 'more partition')} not drained; --json prints all")
    if text := heartbeats_text(partitions):
        print(text)
    unequal, groups = standing.unequal, standing.groups
    if unequal:
        console.print(stand_table(unequal[:ROWS]))
    if len(unequal) > ROWS:
        print(f"and {counted(len(unequal) - ROWS, 'more partition')}; --json prints all")
    if text := unlisted_text(standing):
        print(text)
    for group, why in standing.failed.items():
        print(f"group {group}: {why}")
    for who, why in standing.missing.items():
        print(f"{who}: {why}; consumer groups that it coordinates are judged by their last checkpoint, if any")
    for group, why in standing.not_synced.items():
        print(f"group {group}: not mirrored: {why}")
    short = len({stand.group for stand in unequal} | standing.failed.keys())
    print(groups_line(groups, short))


def show_tombstones(raised: LentConfigs) -> None:
    """Print which compacted copies keep tombstones for longer now, with their earlier value, and which refused."""
    if raised.lent:
        before = ", ".join(f"{one.topic} (before: {one.before or 'none'})" for one in raised.lent[:ROWS])
        more = f" and {len(raised.lent) - ROWS} more" if len(raised.lent) > ROWS else ""
        print(f"delete.retention.ms is now {raised.lent[0].value} on compacted copies: {before}{more}")
    for topic, why in raised.failed.items():
        print(f"delete.retention.ms of {topic} is not raised, so a failback may not find what was deleted: {why}")


def show_left_out(left_out: LeftOutRecords) -> None:
    """Print which partitions of the target lack records that it refused."""
    if left_out.unknown:
        print(f"whether the target lacks records that it refused is not known: {left_out.unknown}")
    for row in left_out.rows[:ROWS]:
        print(row)
    if len(left_out.rows) > ROWS:
        print(f"and {counted(len(left_out.rows) - ROWS, 'more partition')}; --json prints all")
    if left_out.rows:
        print("no column above counts these records; see them, replay or drop them: raymirror quarantine list")


def show_fences(fences: LiftedFences) -> None:
    """Print what kept producers from the target: what was taken away, and what still does."""
    if fences.bindings:
        print(
            f"the fence that an earlier operation left on the target is taken away: {counted(fences.bindings, 'ACL')}"
        )
    for operation, why in fences.failed.items():
        print(f"producers may still be kept from the target by the fence of {operation}: {why}")


def stopped_text(flow: str, *, mirror_goes_on: bool | None, renamed: bool = False) -> str:
    """Say that a flow is stopped, and what leads back. `mirror_goes_on` None: not known; `renamed`: see `Result`."""
    run, resume = f"raymirror run CONFIG --forget-failover '{flow}'", f"raymirror resume '{flow}' --forget-failover"
    if mirror_goes_on is None:
        again = f"{resume} if its mirror still runs, else {run}"
    elif mirror_goes_on:
        again = f"{resume}, because the mirror continues with other flows, or {run} once it has ended"
    else:
        again = run
    return (
        f"flow {flow} is stopped, and no start copies it again; {way_back_text(flow, renamed=renamed)}; to copy in the"
        f" old direction all the same: {again}"
    )


def heartbeats_text(partitions: Sequence[PartitionDrain]) -> str:
    """Name the heartbeat partitions that are not drained; empty if all are."""
    left = uncounted(partitions)
    if not left:
        return ""
    named = ", ".join(f"{row.topic}-{row.partition}" for row in left[:ROWS])
    return f"not drained and not counted, because heartbeats are written all the time: {named}"


def unlisted_text(standing: GroupStatus) -> str:
    """Say what is not known about groups that were judged by checkpoints alone; empty if the source reported all."""
    if not standing.missing and all(one.as_of_ms < 0 for one in standing.stands):
        return ""
    return (
        "partitions without a checkpoint of a group are not listed, because the source does not report them: if the"
        " target has no offset of the group there, its consumers start by their auto.offset.reset"
    )


def groups_line(groups: int, short: int) -> str:
    """Sum up consumer groups, of which `short` are not equal."""
    if not groups:
        return "no consumer groups"
    what = counted(groups, "consumer group")
    return f"{what}: {groups - short:,} exactly as on the source, {short:,} not"


def show_alone(result: Result) -> None:
    """Print the result of a failover without a mirror, and as of when: only the last positions count."""
    seen = f"at {clock_text(result.mirror_seen_ms)}" if result.mirror_seen_ms >= 0 else "never"
    print(
        f"no mirror runs: judged by what the target holds; last sign of life of a mirror of this flow: {seen};"
        ' everything below "copied up to" is on the target, and more may be'
    )
    if result.event_unsaid:
        print(f"no event reports this failover: {result.event_unsaid}")
    _show_positions(result)


def show_stopped_before(result: Result) -> None:
    """Print the result of a failover of a flow that was stopped before."""
    print(
        "the flow was stopped before, so nothing was drained, and its partitions are judged by what the target holds."
        f" To copy what is left first: raymirror resume '{result.flow}', then run the failover again"
    )
    _show_positions(result)


def show_undiscovered(result: Result) -> None:
    """Print the result of a failover if the mirror has never discovered a topic of the flow."""
    print(
        "the mirror has never discovered the partitions of the flow: judged by what the target holds; everything below"
        ' "copied up to" is on the target, and more may be'
    )
    if result.source and not result.partitions:
        print("the target has no position of the flow: the number of records that are not copied is not known")
    _show_positions(result)


def _show_positions(result: Result) -> None:
    """Print how far each partition was copied, and which positions could not be read."""
    for partition, why in result.unread.items():
        print(f"{partition} cannot be read, so partitions may be missing below: {why}")
    if result.partitions:
        stdout_console().print(drain_table(result.partitions[:ROWS]))
    if len(result.partitions) > ROWS:
        print(f"and {counted(len(result.partitions) - ROWS, 'more partition')}; --json prints all")


def drain_table(left: Sequence[PartitionDrain]) -> RenderableType:
    whys = SharedReasons(row.why for row in left)
    is_dated = any(row.as_of_ms >= 0 for row in left)
    rest = ("as of", "not drained because") if is_dated else ("not drained because",)
    table = plain_table(["partition"], ["copied up to", "source ends at"], rest)
    for row in left:
        dated = (as_of(row.as_of_ms),) if is_dated else ()
        offsets = _offset(row.source_next), _offset(row.source_end)
        table.add_row(f"{row.topic}-{row.partition}", *offsets, *dated, whys.cell(row.why))
    return whys.with_legend(table)


def rpo_table(rpo: Sequence[TopicRpo]) -> Table:
    """Draw how far the target is behind, topic by topic."""
    table = plain_table(["topic"], ["partitions", "records behind", "seconds behind"])
    for topic in rpo:
        records, seconds = str(topic.records), f"{topic.seconds:.1f}"
        if topic.records < 0:
            records = "unknown"
        elif not topic.known:
            records = f"unknown, last seen {records}"
        if topic.seconds < 0 or not topic.known:
            seconds = "unknown"
        table.add_row(topic.topic, str(topic.partitions), records, seconds)
    return table


def stand_table(shown: Sequence[GroupPartitionStatus]) -> RenderableType:
    """Draw partitions of groups that are not equal, with the reasons."""
    whys = SharedReasons(one.why for one in shown)
    is_dated = any(one.as_of_ms >= 0 for one in shown)
    rest = ("as of", "not equal because") if is_dated else ("not equal because",)
    table = plain_table(["group", "partition"], ["source offset", "is on the target", "committed there"], rest)
    for one in shown:
        offsets = [one.source_offset, one.target_offset, one.stored]
        dated = (as_of(one.as_of_ms),) if is_dated else ()
        table.add_row(one.group, f"{one.topic}-{one.partition}", *map(_offset, offsets), *dated, whys.cell(one.why))
    return whys.with_legend(table)


def show_back(rows: Sequence[FailbackRow], failed: Mapping[str, str], *, applied: bool = False) -> None:
    """Print the source offsets of the target's groups; `applied`: also what was just committed there."""
    offsets = ["target offset", "is on the source", "committed there"]
    table = plain_table(["group", "partition"], offsets, ["the source offset is", "commit"])
    for row in rows:
        cells = map(_offset, [row.target_offset, row.source_offset, row.stored])
        table.add_row(row.group, f"{row.topic}-{row.partition}", *cells, found_text(row.how), _commit_text(row))
    stdout_console().print(table)
    for group, why in failed.items():
        print(f"group {group}: {why}")
    if applied:
        committed = [row for row in rows if row.committed >= 0]
        groups = counted(len({row.group for row in committed}), "group")
        print(f"{counted(len(committed), 'offset')} of {groups} committed on the source")


def show_other_writers(others: OtherWriters) -> None:
    """Print where another writer wrote behind the last copied record, and what the next start does there."""
    for where, why in others.unknown.items():
        print(f"{where}: whether another writer has written to it is not known: {why}")
    found = others.found
    if not found:
        return
    least = "" if all(one.whole for one in found) else "at least "
    records = counted(sum(one.records for one in found), "record")
    print(
        f"{least}{records} of another writer on the target, behind the last copied record, in"
        f" {counted(len(found), 'partition')}:"
    )
    for one in found[:ROWS]:
        more = "" if one.whole else ", and perhaps more behind"
        what = counted(one.records, "record")
        print(f"  {one.target_topic}-{one.partition}: {what}, offsets {one.first} to {one.last}{more}")
    if len(found) > ROWS:
        print(f"  and {counted(len(found) - ROWS, 'more partition')}; --json prints all")
    print(WILL_STOP if others.stops else WILL_GO_ON)
    print(
        "this command moves groups, no records: raymirror dr failback gives the source what the target has, if copies"
        " have the names of their topics"
    )


def _commit_text(row: FailbackRow) -> str:
    """Say what was committed, or what would be, and why."""
    if row.committed < 0:
        return f"{'yes' if row.commits else 'no'}: {found_text(row.why)}"
    before = "none" if row.before < 0 else str(row.before)
    now = f", and now it is {_offset(row.stored)}" if row.stored not in (row.before, row.committed) else ""
    return f"committed: {before} -> {row.committed}{now}"


def as_of(at_ms: int) -> str:
    """Say when the shown value was written; `-` if that is not known, or the value is current."""
    return "-" if at_ms < 0 else clock_text(at_ms)


def _offset(offset: int) -> str:
    return "-" if offset < 0 else str(offset)
