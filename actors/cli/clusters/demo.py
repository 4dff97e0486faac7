"""`raymirror demo`: starts two real clusters, real load, a live mirror and Spark, and proves the copy twice."""

import argparse
import sys
import time
from typing import TYPE_CHECKING

from actors.cli.common import exits
from actors.cli.common.flags import add_json_argument, say_facts
from actors.observability.colours import stdout_console

if TYPE_CHECKING:
    from actors.demo.outcome import DemoOutcome

_ROWS = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--keep", action="store_true", help="keep the clusters' data, the tables and the logs")
    parser.add_argument("--no-spark", action="store_true", help="leave out Spark, and what needs it")
    add_json_argument(parser, "print one JSON object with every partition; the progress goes to standard error")
    parser.epilog = (
        "exit codes: 0 every partition is identical, and Spark (unless it was left out: without 4 GiB of free memory,"
        " or without a Java for it) has proven the same; 1 something differs, or has failed"
    )


def run(args: argparse.Namespace) -> int:
    """Run the demo. Exit code 0 only if every partition is identical and Spark agrees, 130 after Ctrl-C."""
    from actors.demo.play import play
    from actors.demo.stage import open_stage
    from actors.demo.steps_view import StepsView
    from actors.observability.view import open_view

    began_at = time.monotonic()
    out = sys.stderr if args.json else sys.stdout
    with open_view(json=False, out=out, plain=StepsView) as view, open_stage(view, args.keep) as stage:
        outcome = play(stage, view, spark=not args.no_spark)
        if not outcome.is_whole:
            stage.keep()
    if args.json:
        _say_facts(args, outcome)
    else:
        _show(outcome, time.monotonic() - began_at)
    return exits.OK if outcome.is_whole else exits.FAILED


def _say_facts(args: argparse.Namespace, outcome: "DemoOutcome") -> None:
    spark = outcome.spark
    answers = [
        {"asks": one.asks, "sql": one.sql, "rows": [dict(zip(one.columns, row, strict=True)) for row in one.rows()]}
        for one in spark.answers
    ]
    say_facts(
        args,
        whole=outcome.is_whole,
        partitions=outcome.verdicts,
        copy_s=outcome.copy_s,
        spark={
            "left_out": spark.left_out,
            "trouble": outcome.trouble_of_spark,
            "proof": spark.proof,
            "answers": answers,
            "report": spark.report,
        },
    )


def _show(outcome: "DemoOutcome", wall_s: float) -> None:
    from actors.cli.seeing.sql_output import print_table
    from actors.demo.table import page_line, spark_line, total_line, verdict_table

    stdout_console().print(verdict_table(outcome))
    print(total_line(outcome, wall_s))
    print(spark_line(outcome))
    for answer in outcome.spark.answers:
        print(f"\n{answer.asks} (raymirror sql)")
        print_table(answer, _ROWS)
    if outcome.spark.report:
        print(f"\n{page_line(outcome)}")
