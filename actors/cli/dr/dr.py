"""`raymirror dr`: previews, exports of what only the source has, drills, switchovers, failbacks, and their history."""

import argparse
import asyncio
from collections.abc import Sequence
from pathlib import Path

import msgspec

from actors.cli.common import exits
from actors.cli.dr.drill import add_drill
from actors.cli.dr.failback import add_failback
from actors.cli.dr.flow_choice import add_flow, flow_of
from actors.cli.dr.operating import add_operating
from actors.cli.dr.preview_tables import show_preview
from actors.cli.dr.switchover import add_switchover
from engine.config.settings import FlowConfig, MirrorConfig
from engine.flow.surveys.dr_preview import DrPreview
from engine.services.dr.export import ExportedPartition, ExportService
from engine.services.dr.preview import PreviewService
from policies.words import counted


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the actions."""
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    preview = actions.add_parser(
        "preview", help="show what a failover would lose now, and what a failback could do; changes nothing"
    )
    add_flow(preview)
    preview.epilog = (
        "exit codes: 0 a failover now would lose nothing, and place every group exactly; 4 it would lose records, or"
        " what it would lose is not known, or some group would not be placed exactly; 2 bad input, or a target that"
        " does not answer; what applications would miss, and whether a failback is possible, changes no exit code; no"
        " mirror needs to run"
    )
    preview.set_defaults(action=run_preview)
    export = actions.add_parser(
        "export", help="write the records that only the source has to files, and read them back; changes no cluster"
    )
    add_flow(export)
    export.add_argument("--to", type=Path, required=True, metavar="DIR", help="an empty folder; it is created")
    export.epilog = (
        "exit codes: 0 everything is exported; 1 some partition is not exported whole, or the folder cannot be written;"
        " 2 bad input, or a cluster that does not answer; no mirror needs to run"
    )
    export.set_defaults(action=run_export)
    add_switchover(actions)
    add_failback(actions)
    add_operating(actions)
    add_drill(actions)


def run(args: argparse.Namespace) -> int:
    """Run the given action. Raises what the action raises."""
    return int(args.action(args))


# --- preview ---------------------------------------------------------------------------------------------------------


def run_preview(args: argparse.Namespace) -> int:
    """Preview and print. Raises what `flow_of` raises, BrokerUnreachable, KafkaRefusal."""
    found = asyncio.run(preview_of(*flow_of(args)))
    if args.json:
        print(msgspec.json.encode(as_json(found)).decode())
    else:
        show_preview(found)
    return exits.OK if found.is_whole and found.is_equal else exits.NOT_EQUAL


async def preview_of(config: MirrorConfig, flow: FlowConfig) -> DrPreview:
    """Connect and preview one flow. Raises what `PreviewService` raises."""
    async with PreviewService(config, flow) as service:
        return await service.preview()


def as_json(found: DrPreview) -> dict[str, object]:
    """Return a preview, with the facts that follow from it."""
    return {**msgspec.to_builtins(found), "whole": found.is_whole, "equal": found.is_equal}


# --- export ----------------------------------------------------------------------------------------------------------


def run_export(args: argparse.Namespace) -> int:
    """Export and print. Raises what `flow_of` raises, CannotExport, BadExport, BrokerUnreachable, KafkaRefusal."""
    found = asyncio.run(export_of(*flow_of(args), args.to))
    is_whole = not any(one.why for one in found)
    if args.json:
        answer = {"flow": args.flow, "whole": is_whole, "partitions": msgspec.to_builtins(found)}
        print(msgspec.json.encode(answer).decode())
    else:
        show_export(found)
    return exits.OK if is_whole else exits.FAILED


async def export_of(config: MirrorConfig, flow: FlowConfig, folder: Path) -> tuple[ExportedPartition, ...]:
    """Connect and export one flow. Raises what `ExportService` raises."""
    async with ExportService(config, flow) as service:
        return await service.export(folder)


def show_export(found: Sequence[ExportedPartition]) -> None:
    """Print every file, and every partition that is not exported whole."""
    for one in found:
        name = f"{one.topic}-{one.partition}"
        if one.file:
            print(f"{name}: {counted(one.records, 'record')}, offsets {one.first} to {one.end - 1}: {one.file}")
        if one.expired:
            print(f"{name}: {counted(one.expired, 'offset')} before {one.first} were deleted by the source's retention")
        if one.why:
            print(f"{name} is not exported whole: {one.why}")
    records, files = sum(one.records for one in found), sum(bool(one.file) for one in found)
    print(f"{counted(records, 'record')} that only the source has, in {counted(files, 'file')}, each read back")
