"""`raymirror takeover CONFIG --check`: shows what happens to MM2's flows if raymirror starts now; changes nothing."""

import argparse
import asyncio

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from actors.cli.common import exits
from actors.cli.common.flags import add_config_place
from actors.observability.colours import stdout_console
from actors.observability.tables import plain_table
from engine.checks.takeover_check import FlowSurvey, survey_flow
from engine.config.config import load_config
from engine.config.settings import MirrorConfig
from engine.flow.surveys.takeover_survey import LaneSurvey
from policies.words import counted

LANES_SHOWN = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_place(parser, "the mm2.properties that MM2 runs with")
    parser.add_argument(
        "--check", action="store_true", required=True, help="only check; to take over, start: raymirror run CONFIG"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object with every partition")
    parser.epilog = (
        "exit codes: 0 ready: after a start every record would be on the target exactly once; 1 MM2 still runs, a"
        " permission is missing, records are gone, or some would be copied twice; 2 bad input"
    )


def run(args: argparse.Namespace) -> int:
    """Survey and print. Raises ConfigError, BrokerUnreachable, ConnectionLost: exit code 2."""
    config = load_config(args.config)
    flows = asyncio.run(survey(config))
    if args.json:
        print(msgspec.json.encode({"flows": [as_json(flow) for flow in flows]}).decode())
    else:
        for flow in flows:
            show(flow, stdout_console())
    return exits.OK if all(flow.ready and flow.exact for flow in flows) else exits.FAILED


async def survey(config: MirrorConfig) -> list[FlowSurvey]:
    """Survey every flow, one after the other, with a progress bar on standard error."""
    found = []
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("partitions")
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        for flow in config.flows:
            task = bar.add_task(str(flow.name), total=None)
            found.append(
                await survey_flow(
                    config,
                    flow,
                    lambda lanes, task=task: bar.update(task, total=lanes),  # type: ignore[misc]
                    lambda task=task: bar.advance(task),  # type: ignore[misc]
                )
            )
    return found


def as_json(flow: FlowSurvey) -> dict[str, object]:
    """Return a flow with the sums over its lanes."""
    return {
        **msgspec.to_builtins(flow),
        "ready": flow.ready,
        "exact": flow.exact,
        "writers": flow.writers,
        "behind": sum(lane.behind for lane in flow.lanes),
        "repeats": sum(lane.repeats for lane in flow.lanes),
        "to_copy": sum(lane.to_copy for lane in flow.lanes),
    }


def show(flow: FlowSurvey, console: Console) -> None:
    """Print a flow: one row per writer of positions, the partitions that are not exact, and the obstacles."""
    print(f"{flow.flow}: {counted(len(flow.lanes), 'partition')}")
    console.print(summary(flow))
    doubtful = [lane for lane in flow.lanes if not lane.exact]
    if doubtful:
        console.print(doubts(doubtful[:LANES_SHOWN]))
    if len(doubtful) > LANES_SHOWN:
        print(f"and {len(doubtful) - LANES_SHOWN} more; --json prints all")
    members = "has members: stop MM2 before raymirror starts" if flow.mm2_active else "has no members"
    print(f"MM2's group {flow.mm2_group!r}: {members}")
    for obstacle in flow.obstacles:
        print(f"in the way: {obstacle}")
    repeats = counted(sum(lane.repeats for lane in flow.lanes), "record")
    print(f"the way back: MM2, started now, would continue from these positions and append {repeats} again")
    if flow.ready and flow.exact:
        print("ready: raymirror run would continue with every record exactly once")


def summary(flow: FlowSurvey) -> Table:
    numbers = ["partitions", "behind MM2's positions, not copied again", "may be copied twice", "gone", "to copy"]
    table = plain_table(["positions by"], numbers)
    for writer in flow.writers:
        lanes = [lane for lane in flow.lanes if lane.writer == writer]
        table.add_row(
            writer,
            str(len(lanes)),
            str(sum(lane.behind for lane in lanes)),
            str(sum(_span(lane.again) for lane in lanes)),
            str(sum(_span(lane.gap) for lane in lanes)),
            str(sum(lane.to_copy for lane in lanes)),
        )
    return table


def doubts(lanes: list[LaneSurvey]) -> Table:
    """Draw the partitions that are not exact."""
    table = plain_table(["partition", "positions by", "what would happen"])
    for lane in lanes:
        table.add_row(f"{lane.topic}-{lane.partition}", lane.writer, "; ".join(_said(lane)))
    return table


def _said(lane: LaneSurvey) -> list[str]:
    said = [lane.trouble] if lane.trouble else []
    if lane.again is not None:
        said.append(
            f"source offsets {lane.again[0]} to {lane.again[1]} are copied again and may be on the target twice"
        )
    if lane.gap is not None:
        said.append(f"source offsets {lane.gap[0]} to {lane.gap[1]} are gone: the partition stops with a gap event")
    return said


def _span(offsets: tuple[int, int] | None) -> int:
    return 0 if offsets is None else offsets[1] - offsets[0] + 1
