"""Declares and finds the flow of a `raymirror dr` command, and the configuration that has it."""

import argparse
from pathlib import Path

from actors.cli.common.flags import add_json_argument, add_needed_flow_argument
from actors.cli.common.questions import chosen_flows
from actors.cli.common.running_config import running_config
from engine.base.errors import MirrorError
from engine.config.config import load_config
from engine.config.settings import FlowConfig, MirrorConfig


class NoConfigNamed(MirrorError):
    """Neither the arguments nor a mirror on this machine name a configuration."""

    def __str__(self) -> str:
        return "no mirror runs on this machine that names its configuration; give it: --config FILE"


def add_flow(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of a command about one flow."""
    add_needed_flow_argument(parser)
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="configuration (default: that of the mirror on this machine)"
    )
    parser.add_argument(
        "--mirror", "--name", dest="mirror", metavar="NAME", help="name of the mirror, if several are running"
    )
    add_json_argument(parser)


def flow_of(args: argparse.Namespace) -> tuple[MirrorConfig, FlowConfig]:
    """Return the configuration and the flow. Raises ConfigError, BadQuestion, NoConfigNamed, SeveralMirrors."""
    path = args.config or running_config(args.mirror)
    if path is None:
        raise NoConfigNamed
    config = load_config(path)
    (flow,) = chosen_flows(config, args.flow)
    return config, flow
