"""The flow of an operation and its reverse, as one configuration file has them, and whoever drives an operation."""

import argparse
import getpass
import socket
from pathlib import Path
from typing import NamedTuple

from actors.cli.common.questions import BadQuestion
from actors.cli.common.running_config import running_config
from actors.cli.dr.flow_choice import NoConfigNamed
from engine.config.config import load_config, read_properties, reread_config
from engine.config.file.reversed_flow import reversed_properties
from engine.config.settings import FlowConfig, MirrorConfig
from engine.services.dr.switchover.world import ReverseConfig
from policies.model import FlowName


class OperatedFlow(NamedTuple):
    """A flow with its configuration, its reverse, and the file of both."""

    path: Path
    config: MirrorConfig
    flow: FlowConfig
    reverse: ReverseConfig


def operated_flow(args: argparse.Namespace) -> OperatedFlow:
    """Return the flow that is named, also if the file enables only its reverse, as after a switchover.

    Raises ConfigError, BadQuestion, NoConfigNamed, SeveralMirrors.
    """
    path = args.config or running_config(args.mirror)
    if path is None:
        raise NoConfigNamed
    found = flow_of_file(path, args.flow)
    if found is None:
        names = ", ".join(repr(str(flow.name)) for flow in load_config(path).flows)
        raise BadQuestion(f"neither {args.flow!r} nor its reverse is a flow of {path}", f"use one of {names}")
    return found


def flow_of_file(path: Path, name: str) -> OperatedFlow | None:
    """Return a flow of a file, or the reverse of one; None if the file has neither. Raises ConfigError, BadQuestion."""
    properties, config = read_properties(path), load_config(path)
    for flow in config.flows:
        back = FlowName(flow.name.target, flow.name.source)
        if name not in (str(flow.name), str(back)):
            continue
        other = _named(config, back)
        turned = config if other is not None else reread_config(reversed_properties(properties, flow.name))
        reverse = other or _named(turned, back)
        if reverse is None:
            raise BadQuestion(
                f"{path} has no settings with which {back} could run", f"enable it: {back}.enabled = true"
            )
        if name == str(flow.name):
            return OperatedFlow(
                path, config, flow, ReverseConfig(config=turned, flow=reverse, is_enabled=other is not None)
            )
        if other is None:
            return OperatedFlow(path, turned, reverse, ReverseConfig(config=config, flow=flow, is_enabled=True))
    return None


def _named(config: MirrorConfig, name: FlowName) -> FlowConfig | None:
    return next((flow for flow in config.flows if flow.name == name), None)


def who_operates() -> str:
    """Return who drives an operation, for people."""
    return f"{getpass.getuser()} on {socket.gethostname()}"
