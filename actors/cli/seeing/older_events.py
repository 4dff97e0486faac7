"""Reads older events of a running mirror from its targets: the supervisor keeps only the latest events.

The target's copy of an event gets its time when it is written, up to seconds after the supervisor's time. So events
that both have are matched by their content, not by their time.
"""

import argparse
import sys
from collections import Counter
from pathlib import Path

import msgspec

from actors.cli.common import exits
from actors.cli.seeing.alone import flows_of
from actors.model.status import EventLine, MirrorStatus
from actors.observability.alone import read_targets
from engine.base.errors import MirrorError
from engine.config.config import load_config


class OtherFile(MirrorError):
    """The configuration that was read names no flow of the running mirror."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"{self.path} has no flow of this mirror; name its configuration: --config FILE"


def older_events(args: argparse.Namespace, status: MirrorStatus, since_ms: int) -> tuple[tuple[EventLine, ...], int]:
    """Return the events on the targets since an instant (Unix ms) that the mirror does not report; and the exit code.

    Exit code 1, and a line for each reason, if some events could not be read.
    """
    path = args.config or Path(status.config_path)
    there = {flow.flow for flow in status.flows}
    try:
        config = load_config(path)
        flows = tuple(flow for flow in flows_of(config, args.flow) if str(flow.name) in there)
        if not flows:
            raise OtherFile(path)
        found = read_targets(config, flows, "", since_ms=since_ms)
    except (MirrorError, OSError) as failure:
        return (), _unread({"events before its start": str(failure)})
    unknown = {
        f"{flow.flow}: {what}": why for flow in found.flows if flow.events is None for what, why in flow.unknown.items()
    }
    stored = [event for flow in found.flows for event in flow.events or ()]
    older = _without(stored, status.events)
    return tuple(event for event in older if event.at_ms <= status.at_ms), _unread(unknown)


def _without(stored: list[EventLine], told: tuple[EventLine, ...]) -> tuple[EventLine, ...]:
    """Leave out events that the mirror reports, the newest of equal ones first; return the others ordered by time."""
    told_times = Counter(map(_words, told))
    older: list[EventLine] = []
    for event in sorted(stored, key=lambda event: -event.at_ms):
        if told_times[_words(event)]:
            told_times[_words(event)] -= 1
        else:
            older.append(event)
    return tuple(reversed(older))


def _words(event: EventLine) -> EventLine:
    return msgspec.structs.replace(event, at_ms=0, set_id="", epoch=-1)


def _unread(reasons: dict[str, str]) -> int:
    for what, why in reasons.items():
        print(f"raymirror events: {what}: not known: {why}", file=sys.stderr)
    return exits.FAILED if reasons else exits.OK
