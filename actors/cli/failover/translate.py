"""`raymirror translate GROUP CONFIG`: shows a consumer group's offsets on both sides, or commits them on the target."""

import argparse
import asyncio
import sys
from typing import TYPE_CHECKING

import msgspec
from rich.table import Table

from actors.api.commands.pages import TranslationPage
from actors.cli.common import exits
from actors.cli.common.connect_args import add_url_arguments, remote_mirror
from actors.cli.common.flags import add_config_place, add_flow_argument
from actors.cli.common.questions import BadQuestion, chosen_flows
from actors.cli.common.remote_flows import one_flow_behind
from actors.model.run_kinds import RunKind
from actors.observability.colours import stdout_console
from actors.observability.found_by import found_text
from actors.observability.instants import clock_text
from engine.base.clock import now_s, pause
from engine.base.errors import BrokerUnreachable, ConnectionLost
from engine.config.config import load_config
from engine.config.settings import FlowConfig, MirrorConfig
from engine.core.reports.translated import Translated
from engine.services.translate import GroupTranslator
from policies.words import counted

if TYPE_CHECKING:
    from actors.remote.http_mirror import HttpMirror

_AGAIN_S = 0.25
_UNREACHABLE = (ConnectionLost, BrokerUnreachable)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("group", metavar="GROUP", help="the consumer group's id")
    add_config_place(parser)
    add_flow_argument(parser, "required if there are several flows")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--apply",
        action="store_true",
        help="commit the offsets of the group on the target, if it has no members there",
    )
    parser.add_argument(
        "--backwards", action="store_true", help="with --apply: also if the offset on the target is higher"
    )
    parser.add_argument(
        "--hold-until-equal",
        action="store_true",
        help="wait until the group's offsets on the target are exactly equal to those on the source",
    )
    parser.add_argument(
        "--timeout", type=float, default=60.0, metavar="SECONDS", help="how long --hold-until-equal waits (default: 60)"
    )
    add_url_arguments(parser)
    parser.epilog = (
        "exit codes: 0 every offset is translated (and committed, with --apply), 1 some are not, 2 bad input, 4 as 0,"
        " but the source does not answer: the offsets are those of the group's last checkpoints; no mirror needs to run"
    )


def run(args: argparse.Namespace) -> int:
    """Translate and print.

    Raises ConfigError, BadQuestion, UnknownGroup, GroupFailed, BrokerUnreachable; with `--url` MirrorLost, and what
    `remote_mirror` raises.
    """
    remote = remote_mirror(args)
    if args.backwards and not args.apply:
        raise BadQuestion("--backwards needs --apply: without it nothing is committed", "add --apply")
    if remote is not None:
        return _behind(args, remote)
    config = load_config(args.config)
    flow = chosen_flow(config, args.flow)
    if args.hold_until_equal and not (args.apply or flow.groups.commits):
        raise BadQuestion(
            f"no process commits offsets for groups of {flow.name}, so --hold-until-equal would wait forever",
            "add --apply, or set sync.group.offsets.enabled = true and run the mirror",
        )
    return _told(args, asyncio.run(translate(config, flow, args)))


def _behind(args: argparse.Namespace, mirror: "HttpMirror") -> int:
    if args.apply or args.hold_until_equal:
        from actors.cli.common.remote_runs import run_behind  # slow to import, and needed here only

        return run_behind(mirror, args, RunKind.TRANSLATE)
    flow = one_flow_behind(mirror, args.flow)
    return _told(args, mirror.look("translation", TranslationPage, (("group", args.group),), flow=flow).translation)


def _told(args: argparse.Namespace, found: Translated) -> int:
    """Print, and return the exit code."""
    show(found, json=args.json)
    if found.source:
        print(f"raymirror translate: {by_checkpoints(found, apply=args.apply)}", file=sys.stderr)
        done = found.answered and (found.equal or not args.apply)
        return exits.NOT_EQUAL if done else exits.FAILED
    wanted_equal = args.apply or args.hold_until_equal
    if found.answered and (found.equal or not wanted_equal) and (found.exact or not args.hold_until_equal):
        return exits.OK
    print(f"raymirror translate: {why_not(found)}", file=sys.stderr)
    return exits.FAILED


def chosen_flow(config: MirrorConfig, name: str | None) -> FlowConfig:
    """Return the flow with this name, or the only flow. Raises BadQuestion."""
    found = chosen_flows(config, name)
    if len(found) > 1:
        names = " or ".join(repr(str(flow.name)) for flow in found)
        raise BadQuestion(f"there are {len(found)} flows", f"choose one: --flow {names}")
    return found[0]


async def translate(config: MirrorConfig, flow: FlowConfig, args: argparse.Namespace) -> Translated:
    """Translate once, or with `--hold-until-equal` until both sides are equal or time is up, retrying lost brokers."""
    give_up_at_s = now_s() + args.timeout
    hold: bool = args.hold_until_equal
    found: Translated | None = None
    async with GroupTranslator(config, flow, args.group, backwards=args.backwards) as translator:
        if hold and translator.gone:
            raise BrokerUnreachable(
                f"cluster {flow.name.source!r}", f"{translator.gone}; without the source nothing can be equal"
            )
        while True:
            try:
                found = await translator.translate(apply=args.apply, stable=hold)
            except _UNREACHABLE:
                if not hold or now_s() >= give_up_at_s:
                    raise
            else:
                if not hold or (found.equal and found.exact) or now_s() >= give_up_at_s:
                    return found
            await pause(_AGAIN_S)


def by_checkpoints(found: Translated, *, apply: bool) -> str:
    """Say what the result is worth if the source does not answer."""
    least_ms = min((row.as_of_ms for row in found.rows if row.as_of_ms >= 0), default=-1)
    since = f" (the oldest of {clock_text(least_ms)})" if least_ms >= 0 else ""
    short = f"; {why_not(found)}" if apply and not found.equal else ""
    return (
        f"the source does not answer ({found.source}): these are the group's last checkpoints{since}; later commits of"
        f" the group are not known{short}"
    )


def why_not(found: Translated) -> str:
    """Say in one sentence why the result is not what the command asked for."""
    rows = [row for row in found.rows if row.mirrored]
    of_all = f"of {counted(len(rows), 'partition')}"
    missing = sum(row.target_offset < 0 for row in rows)
    if missing:
        return f"group {found.group}: no translation yet for {missing} {of_all}"
    unequal = sum(not row.equal for row in rows)
    if not unequal:
        near = sum(not row.exact for row in rows)
        return f"group {found.group}: only known from MM2's offset syncs, not exact: {near} {of_all}"
    members = " (it has members on the target)" if found.target_state == "active" else ""
    return f"group {found.group}: another offset is committed on the target: {unequal} {of_all}{members}"


def show(found: Translated, *, json: bool) -> None:
    if json:
        print(msgspec.json.encode(found).decode())
        return
    print(f"{found.flow}: group {found.group}: {found.source_state} on the source, {found.target_state} on the target")
    stdout_console().print(table(found))


def table(found: Translated) -> Table:
    drawn = Table(box=None, pad_edge=False)
    drawn.add_column("source partition", no_wrap=True)
    drawn.add_column("source offset", justify="right", no_wrap=True)
    drawn.add_column("target topic", no_wrap=True)
    for name in ("target offset", "committed there"):
        drawn.add_column(name, justify="right", no_wrap=True)
    for name in ("the target offset is", "why not"):
        drawn.add_column(name)
    if found.source:
        drawn.add_column("as of")
    for row in found.rows:
        drawn.add_row(
            f"{row.topic}-{row.partition}",
            str(row.source_offset),
            row.target_topic or "-",
            str(row.target_offset) if row.target_offset >= 0 else "-",
            str(row.stored) if row.stored >= 0 else "-",
            found_text(row.how) or "-",
            found_text(row.why_not),
            *(("-" if row.as_of_ms < 0 else clock_text(row.as_of_ms),) if found.source else ()),
        )
    return drawn
