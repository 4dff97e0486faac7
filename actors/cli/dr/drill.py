"""`raymirror dr drill FLOW`: rehearses a failover on the live mirror, and takes everything away that it has made."""

import argparse
import asyncio
import sys
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from rich.console import RenderableType

from actors.cli.common import exits
from actors.cli.common.connect_args import add_url_arguments, run_remotely
from actors.cli.common.questions import BadQuestion
from actors.cli.common.steps import StartSteps
from actors.cli.dr.flow_choice import add_flow, flow_of
from actors.model.run_kinds import RunKind
from actors.model.step_lines import StepLine
from actors.observability.colours import stdout_console
from actors.observability.instants import clock_text
from actors.observability.lagging import bytes_text
from actors.observability.shared_reasons import SharedReasons
from actors.observability.tables import plain_table
from engine.config.settings import FlowConfig, MirrorConfig
from engine.core.reports.drill_report import IN_RTO, DrillReport, DrillStep
from engine.services.drill.service import DrillService, DrillWish
from policies.dr.advice import GROUPS, SAMPLE
from policies.dr.drill import DrillFinding
from policies.patterns import BadPattern, PatternList
from policies.words import counted

ROWS = 50
DRAIN_S = 120.0
DOES = {
    DrillStep.CLEAN: "looking for what earlier drills have left",
    DrillStep.SURVEY: "reading what a failover would lose now",
    DrillStep.DRAIN: "waiting until all that the source has now is copied",
    DrillStep.GROUPS: "translating the consumer groups",
    DrillStep.CONSUMERS: "reading with consumers",
    DrillStep.COMPARE: "comparing what they read with the source",
    DrillStep.PRODUCERS: "producing to a scratch topic",
    DrillStep.READINESS: "comparing rights, limits and quotas",
    DrillStep.TAKE_AWAY: "taking everything away",
}


def add_drill(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the action and its arguments."""
    drill = actions.add_parser(
        "drill", help="rehearse a failover on the live mirror; producers, consumers and live groups notice nothing"
    )
    add_flow(drill)
    drill.add_argument(
        "--groups",
        action="append",
        default=[],
        metavar="PATTERN",
        help="only consumer groups whose names match (Java pattern, whole name); may be given several times",
    )
    drill.add_argument(
        "--sample",
        type=int,
        default=0,
        metavar="N",
        help="start consumers for N of the groups only (default: for each); all are translated and committed",
    )
    drill.add_argument(
        "--timeout",
        type=float,
        default=DRAIN_S,
        metavar="SECONDS",
        help=f"how long the copy may take to reach the source's ends (default: {DRAIN_S:.0f})",
    )
    add_url_arguments(drill)
    drill.add_argument("--clean", action="store_true", help="only take away what killed drills have left")
    drill.epilog = (
        "exit codes: 0 a failover would have gone well; 4 something would have hurt: the output says what; 1 the drill"
        " did not finish, or something that it made could not be taken away, or another drill runs; 2 bad input, or a"
        " cluster that does not answer; no mirror needs to run, but without one nothing new is copied"
    )
    drill.set_defaults(action=run_drill)


def run_drill(args: argparse.Namespace) -> int:
    """Drill and print. Raises what `flow_of` and `DrillService` raise, BadQuestion."""
    if (code := run_remotely(args, RunKind.DRILL)) is not None:
        return code
    wish = wish_of(args)
    config, flow = flow_of(args)
    if args.clean:
        return _cleaned(args, asyncio.run(_with_service(config, flow, DrillService.clean)))
    report = asyncio.run(_with_service(config, flow, lambda service: service.drill(wish)))
    if args.json:
        print(msgspec.json.encode(as_json(report)).decode())
    else:
        show_report(report)
    if report.failed or report.left:
        return exits.FAILED
    return exits.OK if report.passed else exits.NOT_EQUAL


async def _with_service(config: MirrorConfig, flow: FlowConfig, work: Callable[[DrillService], Any]) -> Any:
    async with DrillService(config, flow) as service:
        return await work(service)


def wish_of(args: argparse.Namespace) -> DrillWish:
    """Return what to rehearse. Raises BadQuestion."""
    if args.sample < 0:
        wrong = f"{SAMPLE.given(str(args.sample))} is no number of groups"
        raise BadQuestion(wrong, "give 1 or more, or leave it out for all")
    try:
        patterns = PatternList(args.groups)
    except BadPattern as bad:
        raise BadQuestion(f"{GROUPS}: {bad}", "give Java regular expressions that match whole names") from None
    lines = StartSteps(quiet=False, out=sys.stderr)
    return DrillWish(
        chosen=patterns.matches if args.groups else lambda _group: True,
        sample=args.sample,
        drain_s=args.timeout,
        at_step=lambda step: lines.say(step_text(step)),
    )


def step_text(step: DrillStep) -> str:
    """Say which step begins."""
    steps = tuple(DrillStep)
    return str(StepLine(number=steps.index(step) + 1, of=len(steps), name=step.value, does=DOES[step]))


def _cleaned(args: argparse.Namespace, runs: dict[str, tuple[str, ...]]) -> int:
    left = [text for texts in runs.values() for text in texts]
    if args.json:
        print(msgspec.json.encode({"flow": args.flow, "cleaned": sorted(runs), "left": left}).decode())
    else:
        print(f"{counted(len(runs), 'drill')} had left something" if runs else "no drill has left anything")
        for text in left:
            print(f"still there: {text}")
    return exits.FAILED if left else exits.OK


def as_json(report: DrillReport) -> dict[str, object]:
    """Return a report, with the facts that follow from it."""
    return {**msgspec.to_builtins(report), "rto_s": report.rto_s, "passed": report.passed}


# --- the report ------------------------------------------------------------------------------------------------------


def show_report(report: DrillReport) -> None:
    """Print a report."""
    print(f"drill {report.run_id} of {report.flow}, {clock_text(report.began_ms)}: {verdict_text(report)}")
    print(
        f"{counted(report.partitions, 'partition')} drained, {counted(report.groups, 'group')} translated,"
        f" {counted(report.consumers, 'group')} read by a consumer"
    )
    rto = f"{report.rto_s:.1f} s" if report.rto_s >= 0 else "unknown"
    print(f"RTO {rto}: {steps_text(report, in_rto=True)} (and the pause and stop of the flow)")
    print(f"RPO at its beginning: {loss_text(report)}")
    print(f"besides: {steps_text(report, in_rto=False)}")
    for hurts, title in ((True, "would have hurt:"), (False, "also to be known:")):
        some = [one for one in report.findings if one.hurts is hurts]
        if some:
            print(title)
            stdout_console().print(findings_table(some[:ROWS]))
            if len(some) > ROWS:
                print(f"and {counted(len(some) - ROWS, 'more finding')}; --json prints all")
    for text in report.left:
        print(f"still on the target: {text}; take it away with: raymirror dr drill '{report.flow}' --clean")


def verdict_text(report: DrillReport) -> str:
    """Say in a sentence how it went."""
    if report.failed:
        return f"it did not finish: {report.failed}"
    if report.hurts:
        return f"a failover would have hurt, in {counted(report.hurts, 'place')}"
    return "a failover would have gone well"


def loss_text(report: DrillReport) -> str:
    """Say what a failover would have lost at the beginning."""
    loss = report.loss
    if loss.records < 0:
        return "unknown"
    besides = f"; nothing is known about {counted(loss.unknown, 'partition')}" if loss.unknown else ""
    if not loss.records:
        return f"nothing{besides}"
    age = f", the oldest {loss.seconds:.1f} s old" if loss.seconds >= 0 else ""
    return f"{counted(loss.records, 'record')} ({bytes_text(loss.bytes)}){age}{besides}"


def steps_text(report: DrillReport, *, in_rto: bool) -> str:
    """Say how long some steps took."""
    some = [one for one in report.steps if (one.step in IN_RTO) is in_rto]
    return ", ".join(f"{one.step.value} {one.seconds:.1f} s" for one in some) or "no step"


def findings_table(findings: Sequence[DrillFinding]) -> RenderableType:
    """Draw findings; reasons that many share are printed once."""
    whys = SharedReasons(one.why for one in findings)
    table = plain_table(["who or what", "name"], (), ["because"])
    for one in findings:
        table.add_row(one.subject, one.name.value, whys.cell(one.why))
    return whys.with_legend(table)
