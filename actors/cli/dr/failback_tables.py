"""Prints a failback: what each cluster has alone, the steps with their times, where groups went."""

from collections.abc import Sequence

from rich.table import Table

from actors.observability.colours import stdout_console
from actors.observability.lagging import bytes_text
from actors.observability.tables import plain_table
from engine.flow.failback.counting import Counted
from engine.flow.failback.group_moves import MovedPartition
from engine.flow.failback.rows import LaneRow, UnreadGroup
from policies.dr.operations import DrOperation, OperationState
from policies.words import counted as words

ROWS = 50


def show_look(counted: Counted) -> None:
    """Print what a failback would do, by the last positions, and why it would be refused."""
    show_partitions(counted.rows)
    for lane in counted.left[:ROWS]:
        print(f"{lane} was never copied, and its copy holds nothing: it stays as it is")
    for topic, size in list(counted.anew.items())[:ROWS]:
        print(f"{topic} would be deleted on the source, created again and copied whole, about {bytes_text(size)}")
    for reason in counted.reasons[:ROWS]:
        print(f"refused: {reason}")
    if len(counted.reasons) > ROWS:
        print(f"and {words(len(counted.reasons) - ROWS, 'more reason')}; --json prints all")
    if not counted.reasons:
        print("nothing speaks against a failback, by the last positions; the failback itself counts exactly")


def show_failback(
    operation: DrOperation,
    partitions: Sequence[LaneRow],
    groups: Sequence[MovedPartition],
    unread: Sequence[UnreadGroup],
) -> None:
    """Print a failback that has ended."""
    source, target = operation.source, operation.target
    print(f"failback {operation.id} of {operation.flow}: {operation.state.value} in {operation.seconds:.1f} s")
    table = plain_table(["step"], ["seconds", "tries"], ["result"])
    for step in operation.steps:
        facts = ", ".join(f"{name} {value}" for name, value in step.facts.items())
        table.add_row(step.name, f"{step.seconds:.1f}", str(step.tries), facts)
    stdout_console().print(table)
    if operation.state is OperationState.ABORTED:
        print(f"nothing was copied; what the steps had changed on {source} is as it was before; {target} is unchanged")
        return
    show_partitions(partitions)
    close = operation.step("close")
    if close is not None and close.facts:
        back, full = int(close.facts["bytes_to_source"]), int(close.facts["bytes_of_full_copy"])
        print(f"written to {source}: {bytes_text(back)}; a copy of everything would have been {bytes_text(full)}")
    show_groups(groups)
    for one in unread[:ROWS]:
        print(f"not moved, because it could not be read: {one.group}: {one.why}")
    if len(unread) > ROWS:
        print(f"and {words(len(unread) - ROWS, 'more')}; --json prints all")
    if operation.has_ended and close is not None:
        print(f"{target} serves its applications as before, and {source} has what {target} had; next:")
        print(f"1. start the reverse flow: enable {target}->{source} instead of {operation.flow}, then raymirror run")
        print(f"2. when you want to go back: raymirror dr switchover '{target}->{source}'")


def show_partitions(rows: Sequence[LaneRow]) -> None:
    """Print the partitions that one cluster has records of alone."""
    apart = [row for row in rows if row.diverged or row.new]
    print(f"{words(len(rows), 'partition')}, of which one cluster has records alone in {len(apart)}")
    if apart:
        stdout_console().print(_partitions(apart[:ROWS]))
    if len(apart) > ROWS:
        print(f"and {words(len(apart) - ROWS, 'more partition')}; --json prints all")


def _partitions(rows: Sequence[LaneRow]) -> Table:
    numbers = ["shared up to", "only the source has", "only the target has"]
    table = plain_table(["partition"], numbers)
    for row in rows:
        table.add_row(str(row.source), str(row.split), str(row.diverged), str(row.new))
    return table


def show_groups(groups: Sequence[MovedPartition]) -> None:
    """Print the groups that are not exactly where they were."""
    unequal = [one for one in groups if not one.is_equal]
    names = {one.group for one in groups}
    print(f"consumer groups: {len(names - {one.group for one in unequal}):,} of {len(names):,} exactly")
    if not unequal:
        return
    table = plain_table(["group", "partition"], ["on the target", "on the source", "again"], ["because"])
    for one in unequal[:ROWS]:
        where = f"{one.topic}-{one.partition}"
        why = one.why or one.reason.value
        table.add_row(one.group, where, str(one.target_offset), str(one.offset), str(one.repeats), why)
    stdout_console().print(table)
    if len(unequal) > ROWS:
        print(f"and {words(len(unequal) - ROWS, 'more partition')}; --json prints all")
