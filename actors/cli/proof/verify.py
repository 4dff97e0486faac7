"""`raymirror verify CONFIG`: proves record by record that the copy is complete; a small copy needs no Spark."""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from actors.cli.common import exits
from actors.cli.common.connect_args import add_place_arguments, add_url_arguments, run_remotely
from actors.cli.common.flags import add_config_place, add_flow_argument
from actors.cli.common.questions import BadQuestion, chosen_flows
from actors.cli.proof.proof_choice import MOST_OFFSETS, WISHES
from actors.cli.proof.proof_runner import ProofRunner, Tell
from actors.cli.proof.stopped import stopped_lanes, with_stopped
from actors.model.run_kinds import RunKind
from actors.observability.colours import stdout_console
from actors.observability.instants import instant_ms
from engine.base.clock import wall_ms
from engine.config.config import load_config
from engine.config.settings import FlowConfig
from engine.config.storage import Storage
from engine.jobs.proof import model as proof_options
from engine.jobs.proof.model import (
    LaneReport,
    NothingToProve,
    ProofOptions,
    ProofReport,
    ProofVerdict,
    RecordDifference,
)
from policies.dr.advice import TOPICS
from policies.patterns import BadPattern, PatternList
from policies.words import counted

SHOWN = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_place(parser, mirror_has_config=False)
    add_flow_argument(parser)
    parser.add_argument(
        "--topics", metavar="PATTERNS", help="source topics: patterns as in `topics` of the file, separated by commas"
    )
    parser.add_argument("--from", dest="since", metavar="TIME", help="only records since TIME: 2h (ago), or an instant")
    parser.add_argument(
        "--to", dest="until", metavar="TIME", help="only records before TIME; default: everything that is copied"
    )
    parser.add_argument("--again", action="store_true", help="also read again what was proven before")
    parser.add_argument(
        "--storage",
        metavar="URI",
        help="where to store proofs and remember what is proven; default: raymirror.storage of the file",
    )
    parser.add_argument(
        "--spark",
        choices=WISHES,
        default="auto",
        help=f"use Spark: auto (for a flow of {MOST_OFFSETS + 1:,} or more source offsets; fewer in this process),"
        " always or never (auto)",
    )
    parser.add_argument(
        "--cores",
        type=int,
        metavar="N",
        help="start a local Spark with N cores; default: use the Spark of the mirror, else all cores of this machine",
    )
    add_place_arguments(parser)
    add_url_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.epilog = (
        "exit codes: 0 whole up to the newest positions (what is not copied yet is counted); 1 differences, also"
        " records of another writer behind the newest positions, or partitions of which nothing can be proven; 2 bad"
        " input, clusters that do not answer, or nothing to prove; 3 the named mirror does not run"
    )


def run(args: argparse.Namespace) -> int:
    """Prove and print.

    Raises ConfigError, BadQuestion, BadInstant, BadStorage, BrokerUnreachable, ConnectionLost, ProofFailed,
    ProofStorageUnreadable, NoMirror, MirrorLost.
    """
    if (code := run_remotely(args, RunKind.VERIFY)) is not None:
        return code
    config = load_config(args.config)
    flows = chosen_flows(config, args.flow)
    storage = Storage.parse(args.storage) if args.storage else config.storage
    asked = [options_of(flow, args, wall_ms()) for flow in flows]
    reports: list[ProofReport] = []
    failed = False
    with ExitStack() as stack:
        place = ProofRunner(args, config, storage, stack)
        tell = stack.enter_context(bar(args.json))
        for options in asked:
            try:
                reports.append(place.prove(options, tell))
            except NothingToProve as nothing:
                print(f"raymirror verify: {nothing}", file=sys.stderr)
                failed = True
    stopped = stopped_lanes(args.config, os.environ) if reports else {}
    reports = [with_stopped(one, stopped) for one in reports]
    if args.json:
        rows = [row_of(one) for one in reports]
        print(msgspec.json.encode({"flows": rows}).decode())
    else:
        for one in reports:
            show(one, stdout_console(), until=bool(args.until))
    if any(not one.whole for one in reports):
        return exits.FAILED
    return exits.UNUSABLE if failed else exits.OK


def row_of(report: ProofReport) -> dict[str, Any]:
    """Return what `--json` prints of a proof."""
    lanes = report.lanes
    sums = {name: _sum(lanes, name) for name in ("waiting", "behind", "strangers")}
    stopped = sum(bool(lane.stopped) for lane in lanes)
    said = {"flow": str(report.flow), "whole": report.whole, **sums, "stopped": stopped}
    return {**msgspec.to_builtins(report), **said}


def options_of(flow: FlowConfig, args: argparse.Namespace, now_ms: int) -> ProofOptions:
    """Return the options of the proof of a flow. Raises BadInstant, BadQuestion."""
    topics = tuple(part.strip() for part in (args.topics or "").split(",") if part.strip())
    try:
        PatternList(topics)
    except BadPattern as bad:
        raise BadQuestion(f"{TOPICS}: {bad}", "patterns are as in `topics` of the configuration") from None
    return ProofOptions(
        flow=flow.name,
        topics=topics,
        from_ms=instant_ms(args.since, now_ms) if args.since else -1,
        to_ms=instant_ms(args.until, now_ms) if args.until else -1,
        again=args.again,
    )


@contextmanager
def bar(quiet: bool) -> Iterator[Tell]:
    """Show a progress bar on a terminal."""
    columns = (
        SpinnerColumn(),  # Spark reports progress only after each wave of up to 2,000,000 offsets
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    err = Console(stderr=True)
    with Progress(*columns, console=err, transient=True, disable=quiet or not err.is_terminal) as drawn:
        task = drawn.add_task("source offsets", total=None)

        def tell(now: proof_options.Progress) -> None:
            text = f"source offsets, {counted(now.differences, 'difference')}" if now.differences else "source offsets"
            drawn.update(task, completed=now.done, total=now.total, description=text)

        yield tell


def show(report: ProofReport, out: Console, *, until: bool = False) -> None:
    """Print a proof: its verdict, a row per topic, the first differences, and what could not be proven.

    `until`: the proof covers records before a time, else everything that is copied.
    """
    lanes = report.lanes
    records, size = sum(lane.records for lane in lanes), sum(lane.payload_bytes for lane in lanes)
    upto = "" if until else " up to the newest positions"
    verdict = f"whole{upto}" if report.whole else "NOT PROVEN WHOLE"
    print(
        f"{report.flow}: {verdict}: {counted(records, 'record')} ({size / 2**20:,.1f} MiB of keys and values) of "
        f"{counted(len(lanes), 'partition')} compared in {report.took_s:,.1f} s, {counted(report.found, 'difference')}"
        f"{beyond_text(lanes)}"
    )
    out.print(topics_table(lanes))
    if report.differences:
        out.print(differences_table(report.differences[:SHOWN]))
    if report.found > SHOWN:
        where = f"see: raymirror sql {_in_sql(report)}" if report.stored else "--json prints all, --storage stores them"
        print(f"and {report.found - SHOWN:,} more: {where}")
    for line in notes(lanes)[:SHOWN]:
        print(line)
    if report.stored:
        print(f"stored as run {report.run} in {report.stored}")


def _in_sql(report: ProofReport) -> str:
    """Return the query for the differences of a proof, in quotes for a shell."""
    return f"\"SELECT * FROM proof_differences WHERE run = '{report.run}'\""


def beyond_text(lanes: Sequence[LaneReport]) -> str:
    """Say what lies beyond the newest positions and was not compared; empty if nothing does."""
    waiting, behind = _sum(lanes, "waiting"), _sum(lanes, "behind")
    said = []
    if waiting:
        said.append(f"{counted(waiting, 'source offset')} not copied yet")
    if behind:
        said.append(f"{counted(behind, 'offset')} on the target after the last position (see: raymirror compare-ends)")
    return f"; {', '.join(said)}" if said else ""


def notes(lanes: Sequence[LaneReport]) -> list[str]:
    """Say which source offsets were left out, and why."""
    found = []
    for what, count in (
        (
            "not visible to read_committed consumers (markers, aborted transactions), or removed by compaction",
            _sum(lanes, "without_record"),
        ),
        (
            "not comparable: compaction or retention removed one side, or the target sets its own timestamps",
            _sum(lanes, "not_comparable"),
        ),
        (
            "left out, because the target refused the records (raymirror quarantine list names them)",
            _sum(lanes, "left_out"),
        ),
        (
            "below the offset map: not copied by raymirror, so nothing can be proven",
            sum(lane.unmapped for lane in lanes if lane.verdict is not ProofVerdict.UNPROVEN),
        ),
    ):
        if count:
            found.append(f"{count:,} source offsets: {what}")
    found += [f"{lane.topic}-{lane.partition}: stopped: {lane.stopped}" for lane in lanes if lane.stopped]
    return found + [f"{lane.topic}-{lane.partition}: {lane.note}" for lane in lanes if lane.note and not lane.empty]


def _sum(lanes: Sequence[LaneReport], field: str) -> int:
    return sum(getattr(lane, field) for lane in lanes)


def topics_table(lanes: Sequence[LaneReport]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("topic", no_wrap=True)
    table.add_column("copy", no_wrap=True)
    for name in ("partitions", "records", "proven offsets", "not comparable", "differences"):
        table.add_column(name, justify="right")
    table.add_column("verdict", no_wrap=True)
    by_topic: dict[tuple[str, str], list[LaneReport]] = {}
    for lane in lanes:
        by_topic.setdefault((lane.topic, lane.target_topic), []).append(lane)
    for (topic, copy), some in sorted(by_topic.items()):
        proven = sum(lane.proven_to - lane.proven_from for lane in some)
        counts = (len(some), _sum(some, "records"), proven, _sum(some, "not_comparable"), _sum(some, "differences"))
        verdicts = {lane.verdict for lane in some if not lane.empty}
        worst = next(
            (one for one in (ProofVerdict.DIFFERS, ProofVerdict.UNPROVEN) if one in verdicts), ProofVerdict.WHOLE
        )
        table.add_row(topic, copy, *(f"{count:,}" for count in counts), worst.value)
    return table


def differences_table(found: Sequence[RecordDifference]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("partition", no_wrap=True)
    table.add_column("source offset", justify="right")
    table.add_column("on the target", no_wrap=True)
    table.add_column("target offset", justify="right")
    for name in ("kind", "what"):
        table.add_column(name)
    for one in found:
        source = str(one.source_offset) if one.source_offset >= 0 else "-"
        place = f"{one.target_topic}-{one.partition}"
        table.add_row(f"{one.topic}-{one.partition}", source, place, str(one.target_offset), one.kind.value, one.what)
    return table
