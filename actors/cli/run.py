"""`raymirror run CONFIG`: start or join the mirror, follow it, and drain it when asked to end."""

import argparse
import os
import sys
from pathlib import Path

from actors import session
from actors.checks import prepare
from actors.cli import exits

HELP = "start or join the mirror of a configuration and follow it"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("config", type=Path, metavar="CONFIG", help="mm2.properties or mirror.yaml")
    parser.add_argument("--address", help="Ray cluster, HOST:PORT (default: RAY_ADDRESS, else a local Ray)")
    parser.add_argument("--name", help="name of the mirror (default: made of its flows)")
    parser.add_argument("--json", action="store_true", help="print one JSON status per second instead of a table")


def run(args: argparse.Namespace) -> int:
    """Check all that can be checked without Ray, then run. Exit code 0 after a drain, 1 if it was not in order."""
    config, _ = prepare(args.config)
    for warning in config.warnings:
        print(f"warning: {args.config}: {warning}", file=sys.stderr)
    # Ray comes last: it takes seconds, and nothing above needs it
    from actors import launch
    from actors.follow import drain, follow, stop_signals
    from actors.view import open_view

    plan = launch.plan_launch(args.config, config, address=args.address, name=args.name)
    session.refuse_second(plan.spec.namespace, os.environ)
    connection = launch.connect(plan)
    in_order = False
    try:
        with stop_signals() as asked, launch.launched(connection, plan) as mirror, open_view(json=args.json) as view:
            status = follow(mirror, view, asked)
            in_order = status.phase == "stopped" or drain(mirror, plan.spec.drain_s, view)
    finally:
        if not in_order and connection.logs is not None:
            print(f"the logs of Ray and of the copiers are in {connection.logs}", file=sys.stderr)
        connection.close(keep_logs=not in_order)
    return exits.OK if in_order else exits.FAILED
