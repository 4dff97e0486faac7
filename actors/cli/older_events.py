"""Events from before a running mirror began: its supervisor tells those since then, the targets keep those before."""

import argparse
import sys
from pathlib import Path

from actors.alone import look
from actors.cli import exits
from actors.cli.alone import flows_of
from actors.status import EventLine, MirrorStatus
from engine.config import load_config
from engine.errors import MirrorError


def older_events(args: argparse.Namespace, status: MirrorStatus, since_ms: int) -> tuple[tuple[EventLine, ...], int]:
    """Return what the targets of a running mirror hold of the time before it tells of, in order, and the exit code.

    Exit code 1, and a line for each reason, where some of it could not be read.
    """
    try:
        config = load_config(args.config or Path(status.config_path))
        found = look(config, flows_of(config, args.flow), "", since_ms=since_ms)
    except (MirrorError, OSError) as failure:
        return (), _unread({"what was before its start": str(failure)})
    unknown = {
        f"{flow.flow}: {what}": why for flow in found.flows if flow.events is None for what, why in flow.unknown.items()
    }
    until_ms = min((event.at_ms for event in status.events), default=status.at_ms)
    events = [event for flow in found.flows for event in flow.events or () if event.at_ms < until_ms]
    return tuple(sorted(events, key=lambda event: event.at_ms)), _unread(unknown)


def _unread(reasons: dict[str, str]) -> int:
    for what, why in reasons.items():
        print(f"raymirror events: {what}: not known: {why}", file=sys.stderr)
    return exits.FAILED if reasons else exits.OK
