"""`raymirror events`: shows the events of a running mirror; without one, the events that its targets hold."""

import argparse
import sys

import msgspec

from actors.cli.common import exits
from actors.cli.common.connect_args import add_config_argument, add_place_arguments, add_url_arguments, status_or_why
from actors.cli.common.flags import add_flow_argument
from actors.model.status import EVENTS_KEPT, EventLine, MirrorStatus
from actors.observability.colours import print_severity
from actors.observability.instants import clock_text, instant_ms
from engine.base.clock import wall_ms

SEVERITIES = ("info", "warning", "error")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_flow_argument(parser)
    parser.add_argument(
        "--since",
        metavar="TIME",
        help="30s, 10m, 2h, 1d ago, or an instant, also before the start of the mirror; default: since its start",
    )
    parser.add_argument(
        "--severity", choices=SEVERITIES, default="info", help="only events of this severity or a higher one (info)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    add_place_arguments(parser)
    add_url_arguments(parser)
    add_config_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Ask once and print. Raises NoConfigGiven, BadInstant, ConfigError, UnknownFlow.

    A running mirror reports the events since its start; if `--since` asks for older ones, its targets are read too.
    """
    since_ms = instant_ms(args.since, wall_ms()) if args.since else 0
    status = status_or_why(args)
    if isinstance(status, str):
        from actors.cli.seeing.alone import events_alone  # imports Kafka's clients, slow and needed here only

        kept, code = events_alone(args, status, since_ms)
        events = tuple(event for flow in kept.flows for event in flow.events or ())
    else:
        events, code = _with_older(args, status, since_ms)
    found = chosen(events, args.flow, since_ms, args.severity)
    if not found and not args.json:
        print(f"no events{' of that severity' if args.severity != SEVERITIES[0] else ''} are known", file=sys.stderr)
    for event in found:
        if args.json:
            sys.stdout.write(msgspec.json.encode(event).decode() + "\n")
        else:
            print_severity(event.severity, event_line(event))
    return code


def _with_older(args: argparse.Namespace, status: MirrorStatus, since_ms: int) -> tuple[tuple[EventLine, ...], int]:
    """Return the events of a running mirror, after older ones of its targets if `--since` asks; and the exit code."""
    is_full = len(status.events) >= EVENTS_KEPT
    from_ms = status.events[0].at_ms if is_full else status.at_ms - round(1000 * status.up_s)
    if not args.since:
        if not args.json:
            what = f"the last {EVENTS_KEPT} events, since" if is_full else "events since the start of the supervisor at"
            print(f"{what} {clock_text(from_ms)}; for older ones: raymirror events --since 1d", file=sys.stderr)
        return status.events, exits.OK
    if since_ms >= from_ms:
        return status.events, exits.OK
    if args.url and args.config is None:
        what = f"events before {clock_text(from_ms)} are on the targets"
        print(f"{what}; to read them from here: --config FILE", file=sys.stderr)
        return status.events, exits.FAILED
    from actors.cli.seeing.older_events import older_events  # imports Kafka's clients, slow and needed here only

    older, code = older_events(args, status, since_ms)
    return older + status.events, code


def chosen(events: tuple[EventLine, ...], flow: str | None, since_ms: int, severity: str) -> list[EventLine]:
    least = SEVERITIES.index(severity)
    return [
        event
        for event in events
        if event.at_ms >= since_ms and flow in (None, event.flow) and SEVERITIES.index(event.severity) >= least
    ]


def event_line(event: EventLine) -> str:
    return f"{clock_text(event.at_ms)} {event.severity:<7} {event.flow}: {event.text}"
