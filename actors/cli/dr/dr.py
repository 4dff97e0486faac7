"""`raymirror dr preview FLOW`: shows what a failover would lose now, and what a failback could do. Changes nothing."""

import argparse
import asyncio
from pathlib import Path

import msgspec

from actors.cli.common import exits
from actors.cli.common.flags import add_json_argument, add_needed_flow_argument
from actors.cli.common.questions import chosen_flows
from actors.cli.common.running_config import running_config
from actors.cli.dr.preview_tables import show_preview
from engine.base.errors import MirrorError
from engine.config.config import load_config
from engine.config.settings import FlowConfig, MirrorConfig
from engine.flow.surveys.dr_preview import DrPreview
from engine.services.dr_preview import PreviewService


class NoConfigNamed(MirrorError):
    """Neither the arguments nor a mirror on this machine name a configuration."""

    def __str__(self) -> str:
        return "no mirror runs on this machine that names its configuration; give it: --config FILE"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the actions."""
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    preview = actions.add_parser(
        "preview", help="show what a failover would lose now, and what a failback could do; changes nothing"
    )
    add_needed_flow_argument(preview)
    preview.add_argument(
        "--config", type=Path, metavar="FILE", help="configuration (default: that of the mirror on this machine)"
    )
    preview.add_argument(
        "--mirror", "--name", dest="mirror", metavar="NAME", help="name of the mirror, if several are running"
    )
    add_json_argument(preview)
    preview.epilog = (
        "exit codes: 0 a failover now would lose nothing, and place every group exactly; 4 it would lose records, or"
        " what it would lose is not known, or some group would not be placed exactly; 2 bad input, or a target that"
        " does not answer; what applications would miss, and whether a failback is possible, changes no exit code; no"
        " mirror needs to run"
    )
    preview.set_defaults(action=run_preview)


def run(args: argparse.Namespace) -> int:
    """Run the given action. Raises what the action raises."""
    return int(args.action(args))


def run_preview(args: argparse.Namespace) -> int:
    """Preview and print. Raises ConfigError, BadQuestion, NoConfigNamed, BrokerUnreachable, KafkaRefusal."""
    path = args.config or running_config(args.mirror)
    if path is None:
        raise NoConfigNamed
    config = load_config(path)
    (flow,) = chosen_flows(config, args.flow)
    found = asyncio.run(preview_of(config, flow))
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
