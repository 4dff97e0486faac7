"""Prints the preview of a failover and of the failback after it: tables and sentences."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich.console import RenderableType
from rich.table import Table

from actors.cli.failover.failover_tables import stand_table
from actors.observability.colours import stdout_console
from actors.observability.instants import clock_text
from actors.observability.lagging import bytes_text
from actors.observability.losses import loss_text
from actors.observability.shared_reasons import SharedReasons
from actors.observability.tables import plain_table
from engine.flow.surveys.dr_preview import DrPreview, GroupFailback, PartitionFailback, TopicLoss
from engine.flow.surveys.readiness_survey import Readiness
from policies.dr.failback import FailbackChoice
from policies.dr.group_places import GroupPlace, PlaceReason
from policies.dr.readiness import Unready
from policies.dr.separation import LogPart
from policies.words import counted

ROWS = 50
_PARTS = {
    LogPart.SHARED: "in the shared records",
    LogPart.DIVERGED: "in what only the source has",
    LogPart.NEW: "in what only the target has",
    LogPart.END: "at the end",
}
_REASONS = {
    PlaceReason.EXACT: "",
    PlaceReason.INSIDE_DIVERGED: "its own commit on the source stays",
    PlaceReason.REPEATS: "reads records again",
    PlaceReason.READ_DISCARDED: "has read records that are discarded",
    PlaceReason.NOT_MAPPED: "its commit on the target has no exact source offset",
}


def show_preview(found: DrPreview) -> None:
    """Print what a failover would lose, the groups, and what a failback could do."""
    console = stdout_console()
    print(f"{found.flow} at {clock_text(found.at_ms)}: {loss_text(found)}")
    for partition, why in found.unread.items():
        print(f"{partition} cannot be read, so partitions may be missing below: {why}")
    lossy = [one for one in found.losses if one.is_lossy]
    if lossy:
        console.print(loss_table(lossy[:ROWS]))
        _say_more(len(lossy), "topic")
    _show_groups(found)
    if found.source:
        print("what applications would miss and what a failback could do is judged when the source answers")
        return
    _show_readiness(found.readiness)
    print(f"a failback after it, in {counted(len(found.partitions), 'partition')}, by what becomes of these records:")
    console.print(choice_table(found.partitions))
    refused = list(refusals(found.partitions))
    if refused:
        console.print(refusal_table(refused[:ROWS]))
        _say_more(len(refused), "refusal")
    for group, why in found.failed.items():
        print(f"group {group}: its way back is not known: {why}")
    moved = list(inexact(found.groups))
    if moved:
        console.print(place_table(moved[:ROWS]))
        _say_more(len(moved), "place")


def _say_more(count: int, what: str) -> None:
    if count > ROWS:
        print(f"and {counted(count - ROWS, f'more {what}')}; --json prints all")


def loss_table(losses: Sequence[TopicLoss]) -> Table:
    """Draw the topics of which a failover would lose something."""
    numbers = ["partitions", "records", "bytes", "oldest (s)", "torn transactions", "refused", "not known"]
    table = plain_table(["topic"], numbers)
    for one in losses:
        if not one.is_known:
            table.add_row(one.topic, str(one.partitions), *["unknown"] * 5, str(one.unknown))
            continue
        about = "" if one.is_exact or not one.records else "~"
        table.add_row(
            one.topic,
            str(one.partitions),
            f"{about}{one.records}",
            f"{about}{bytes_text(one.bytes)}",
            f"{one.seconds:.1f}" if one.seconds >= 0 else "unknown",
            str(one.torn),
            str(one.left_out),
            str(one.unknown),
        )
    return table


def _show_groups(found: DrPreview) -> None:
    standing, unequal = found.standing, found.unequal
    bad = {one.group for one in unequal} | standing.failed.keys()
    if not standing.groups and not standing.failed:
        print("no consumer groups")
    else:
        exact = standing.groups - len(bad & {one.group for one in standing.stands})
        print(f"consumer groups: a failover would place {exact:,} exactly, and {len(bad):,} not")
    if unequal:
        stdout_console().print(stand_table(unequal[:ROWS]))
        _say_more(len(unequal), "partition")
    for group, why in standing.failed.items():
        print(f"group {group}: {why}")
    for who, why in standing.missing.items():
        print(f"{who}: {why}; consumer groups that it coordinates are judged by their last checkpoint, if any")


def _show_readiness(readiness: Readiness) -> None:
    """Print what applications would miss on the target."""
    for text in readiness.unknown:
        print(f"what applications would miss on the target is not known: {text}")
    missing = readiness.unready
    if not missing:
        print(f"applications would miss nothing {'else ' if readiness.unknown else ''}on the target")
        return
    print("applications would miss on the target:")
    stdout_console().print(unready_table(missing[:ROWS]))
    _say_more(len(missing), "line")


def unready_table(missing: Sequence[Unready]) -> RenderableType:
    """Draw what applications would miss; reasons that many topics share are printed once."""
    whys = SharedReasons(one.why for one in missing)
    table = plain_table(["who or what", "name"], (), ["because"])
    for one in missing:
        table.add_row(one.subject, one.name.value, whys.cell(one.why))
    return whys.with_legend(table)


def choice_table(partitions: Sequence[PartitionFailback]) -> Table:
    """Draw what each choice would do, summed up over the partitions that it may do it to."""
    numbers = ["possible", "refused", "made anew", "keys compared", "records to the source", "to the target", "expired"]
    table = plain_table(["choice"], numbers)
    for at, choice in enumerate(FailbackChoice):
        plans = [one.plans[at] for one in partitions]
        may = [plan for plan in plans if not plan.refused]
        expired = [plan.expired for plan in may]
        table.add_row(
            choice.value,
            str(len(may)),
            str(len(plans) - len(may)),
            str(sum(plan.makes_anew for plan in may)),
            str(sum(plan.compares_keys for plan in may)),
            str(sum(plan.to_source for plan in may)),
            str(sum(plan.to_target for plan in may)),
            "unknown" if -1 in expired else str(sum(expired)),
        )
    return table


class RefusalLine(NamedTuple):
    """One refusal of one partition, by one or more choices."""

    partition: str
    choices: str
    name: str
    why: str


def refusals(partitions: Sequence[PartitionFailback]) -> Iterator[RefusalLine]:
    """Yield the refusals, each once per partition with the choices that it refuses."""
    for one in partitions:
        choices: dict[tuple[str, str], list[str]] = {}
        for plan in one.plans:
            for refused in plan.refused:
                choices.setdefault((refused.name.value, refused.why), []).append(plan.choice.value)
        for (name, why), some in choices.items():
            who = "every choice" if len(some) == len(FailbackChoice) else ", ".join(some)
            yield RefusalLine(f"{one.topic}-{one.partition}", who, name, why)


def refusal_table(lines: Sequence[RefusalLine]) -> RenderableType:
    """Draw refusals; reasons that many partitions share are printed once."""
    whys = SharedReasons(line.why for line in lines)
    table = plain_table(["partition", "refuses", "name"], (), ["because"])
    for line in lines:
        table.add_row(line.partition, line.choices, line.name, whys.cell(line.why))
    return whys.with_legend(table)


class PlaceLine(NamedTuple):
    """A group that would not be placed exactly in one log of one partition, with one choice."""

    group: str
    partition: str
    choice: str
    cluster: str
    place: GroupPlace


def inexact(groups: Sequence[GroupFailback]) -> Iterator[PlaceLine]:
    """Yield the places that are not exact."""
    for one in groups:
        for places in one.places:
            for cluster, place in (("source", places.source), ("target", places.target)):
                if not place.is_equal:
                    yield PlaceLine(one.group, f"{one.topic}-{one.partition}", places.choice.value, cluster, place)


def place_table(lines: Sequence[PlaceLine]) -> RenderableType:
    """Draw where groups would go."""
    table = plain_table(["group", "partition", "choice", "on the"], ["again"], ["goes to", "not exact because"])
    for line in lines:
        table.add_row(
            line.group,
            line.partition,
            line.choice,
            line.cluster,
            str(line.place.repeats),
            place_text(line.place),
            _REASONS[line.place.reason],
        )
    return table


def place_text(place: GroupPlace) -> str:
    """Say where a group goes."""
    if place.part is LogPart.END:
        return _PARTS[place.part]
    return f"offset {place.into} {_PARTS[place.part]}"
