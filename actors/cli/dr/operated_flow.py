"""The flow of an operation and its reverse, as one configuration file has them, and whoever drives an operation."""

import argparse
import os
import secrets
import socket
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from actors.cli.common.questions import BadQuestion
from actors.cli.common.running_config import running_config
from actors.cli.common.user import user_name
from actors.cli.dr.flow_choice import NoConfigNamed
from actors.local import session
from actors.model.requests import ASKED_BY
from engine.base.clock import wall_ms
from engine.base.errors import MirrorError
from engine.config.config import load_config, read_properties, reread_config
from engine.config.file.reversed_flow import reversed_properties
from engine.config.settings import FlowConfig, MirrorConfig
from engine.services.dr.switchover.world import ReverseConfig
from policies.dr.operation_steps import OperationKind
from policies.dr.operations import DrOperation, Fact
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
    path = args.config or _config_of_mirror(args)
    if path is None:
        raise NoConfigNamed
    found = flow_of_file(path, args.flow)
    if found is None:
        names = ", ".join(repr(str(flow.name)) for flow in load_config(path).flows)
        raise BadQuestion(f"neither {args.flow!r} nor its reverse is a flow of {path}", f"use one of {names}")
    return found


def _config_of_mirror(args: argparse.Namespace) -> Path | None:
    fits = fitting(session.living(os.environ, args.mirror), None, args.flow)
    return Path(fits[0].config_path) if len(fits) == 1 else running_config(args.mirror)


def fitting(states: Sequence[session.StateFile], path: Path | None, flow: str) -> tuple[session.StateFile, ...]:
    """Return the mirrors that an operation of a flow is about: those of the file, else those whose file has the flow.

    A mirror of the reverse flow fits if none has the flow itself, as after a switchover.
    """
    file = None if path is None else str(session.absolute(path))
    of_file = tuple(one for one in states if one.config_path == file)
    if of_file:
        return of_file
    back = "->".join(reversed(flow.split("->")))
    flows = {one.config_path: _flows_of(Path(one.config_path)) for one in states}
    named = (tuple(one for one in states if name in flows[one.config_path]) for name in (flow, back))
    return next(filter(None, named), ())


def _flows_of(path: Path) -> frozenset[str]:
    """Return the flows of a file; none of one that cannot be read, whose mirror must be named."""
    try:
        return frozenset(str(flow.name) for flow in load_config(path).flows)
    except (MirrorError, OSError):
        return frozenset()


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
    """Return who drives an operation, for people; `asked`: the user of HTTP who has asked for it."""
    asked = os.environ.get(ASKED_BY, "")
    return f"{f'{asked} by HTTP, as ' if asked else ''}{user_name()} on {socket.gethostname()}"


def new_operation(flow: FlowName, kind: OperationKind, choices: Mapping[str, Fact]) -> DrOperation:
    """Return an operation of a flow that this command begins now."""
    return DrOperation(
        id=new_id(),
        kind=kind.value,
        source=flow.source,
        target=flow.target,
        who=who_operates(),
        began_ms=wall_ms(),
        choices=dict(choices),
    )


def new_id() -> str:
    """Return an id that sorts by time."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
