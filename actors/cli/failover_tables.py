"""What `raymirror failover` prints."""

import sys
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table

from actors.cli.failover_outcome import Result
from actors.instants import clock_text
from engine.core.drain import PartitionDrain
from engine.core.rpo import TopicRpo
from engine.flow.standing import Standing
from engine.flow.way_back import BackRow
from policies.words import counted

WIDE = 400  # columns where the output is no terminal, so that nothing is cut
ROWS = 50


def show_outcome(
    rpo: Sequence[TopicRpo], partitions: Sequence[PartitionDrain], standing: Standing, *, gone: str
) -> None:
    """Print what a failover left: topics, partitions that are not drained, and groups that are not equal."""
    left = [row for row in partitions if not row.drained]
    if gone:
        print(f"the source does not answer ({gone}): stopped at the point reached; what it holds beyond is not known")
    elif left:
        print(f"stopped at the point reached: {len(left)} of {counted(len(partitions), 'partition')} not drained")
    console = Console(width=None if sys.stdout.isatty() else WIDE)
    console.print(rpo_table(rpo))
    if left and not gone:
        console.print(drain_table(left[:ROWS]))
        if len(left) > ROWS:
            print(f"and {counted(len(left) - ROWS, 'more partition')} not drained; all of them with --json")
    unequal, groups = standing.unequal, standing.groups
    if unequal:
        console.print(stand_table(standing))
    if len(unequal) > ROWS:
        print(f"and {counted(len(unequal) - ROWS, 'more partition')}; all of them with --json")
    for group, why in standing.failed.items():
        print(f"group {group}: {why}")
    for who, why in standing.missing.items():
        print(f"{who}: {why}; consumer groups that it coordinates stand where their last checkpoint says, if at all")
    for group, why in standing.not_synced.items():
        print(f"group {group}: not mirrored: {why}")
    short = len({stand.group for stand in unequal} | standing.failed.keys())
    print(groups_line(groups, short))


def groups_line(groups: int, short: int) -> str:
    """Sum up: of so many consumer groups, `short` are not equal."""
    if not groups:
        return "no consumer groups"
    what = counted(groups, "consumer group")
    return f"{what}: {groups - short:,} exactly as on the source, {short:,} not"


def show_alone(result: Result) -> None:
    """Print what a failover without a mirror knows, and from when: nothing was drained, positions are the last ones."""
    seen = f"the last one was seen at {clock_text(result.mirror_seen_ms)}" if result.mirror_seen_ms >= 0 else "never"
    print(
        f"no mirror runs: judged by what the target holds; when a mirror had the flow: {seen}; everything below"
        ' "copied up to" is on the target, and more may be'
    )
    if result.event_unsaid:
        print(f"no event tells of this failover: {result.event_unsaid}")
    for partition, why in result.unread.items():
        print(f"{partition} cannot be read, so partitions may be missing below: {why}")
    Console(width=None if sys.stdout.isatty() else WIDE).print(drain_table(result.partitions[:ROWS]))
    if len(result.partitions) > ROWS:
        print(f"and {counted(len(result.partitions) - ROWS, 'more partition')}; all of them with --json")


def drain_table(left: Sequence[PartitionDrain]) -> Table:
    """Draw the partitions that are not drained."""
    table = Table(box=None, pad_edge=False)
    table.add_column("partition")
    for name in ("copied up to", "source ends at"):
        table.add_column(name, justify="right")
    is_dated = any(row.as_of_ms >= 0 for row in left)
    if is_dated:
        table.add_column("as of")
    table.add_column("not drained because")
    for row in left:
        dated = (as_of(row.as_of_ms),) if is_dated else ()
        offsets = _offset(row.source_next), _offset(row.source_end)
        table.add_row(f"{row.topic}-{row.partition}", *offsets, *dated, row.why)
    return table


def rpo_table(rpo: Sequence[TopicRpo]) -> Table:
    """Draw what is not on the target."""
    table = Table(box=None, pad_edge=False)
    table.add_column("topic")
    for name in ("partitions", "records behind", "seconds behind"):
        table.add_column(name, justify="right")
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


def stand_table(standing: Standing) -> Table:
    """Draw the partitions of groups that are not equal."""
    table = Table(box=None, pad_edge=False)
    for name in ("group", "partition"):
        table.add_column(name)
    for name in ("source offset", "is on the target", "committed there"):
        table.add_column(name, justify="right")
    is_dated = any(one.as_of_ms >= 0 for one in standing.unequal)
    if is_dated:
        table.add_column("as of")
    table.add_column("not equal because")
    for one in standing.unequal[:ROWS]:
        offsets = [one.source_offset, one.target_offset, one.stored]
        dated = (as_of(one.as_of_ms),) if is_dated else ()
        table.add_row(one.group, f"{one.topic}-{one.partition}", *map(_offset, offsets), *dated, one.why)
    return table


def show_back(rows: Sequence[BackRow], failed: Mapping[str, str]) -> None:
    """Print where groups of the target are on the source."""
    table = Table(box=None, pad_edge=False)
    for name in ("group", "partition"):
        table.add_column(name)
    for name in ("target offset", "is on the source", "committed there"):
        table.add_column(name, justify="right")
    for name in ("how", "commit"):
        table.add_column(name)
    for row in rows:
        offsets = map(_offset, [row.target_offset, row.source_offset, row.stored])
        table.add_row(
            row.group,
            f"{row.topic}-{row.partition}",
            *offsets,
            row.how,
            f"{'yes' if row.commits else 'no'}: {row.why}",
        )
    Console(width=None if sys.stdout.isatty() else WIDE).print(table)
    for group, why in failed.items():
        print(f"group {group}: {why}")


def as_of(at_ms: int) -> str:
    """Say when something was written that is shown; `-` where that is not known, or it is of now."""
    return "-" if at_ms < 0 else clock_text(at_ms)


def _offset(offset: int) -> str:
    return "-" if offset < 0 else str(offset)
