"""`raymirror run CONFIG`: start or join the mirror, follow it, and drain it when asked to end."""

import argparse
import os
import sys
from pathlib import Path

from actors import session
from actors.checks import prepare, shipped_secrets
from actors.cli import exits
from engine.errors import BrokerUnreachable
from engine.file_kind import worded

HELP = "start or join the mirror of a configuration and follow it"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("config", type=Path, metavar="CONFIG", help="mm2.properties or mirror.yaml")
    parser.add_argument("--address", help="Ray cluster, HOST:PORT (default: RAY_ADDRESS, else a local Ray)")
    parser.add_argument("--name", "--mirror", metavar="NAME", help="name of the mirror (default: made of its flows)")
    parser.add_argument("--json", action="store_true", help="print one JSON status per second instead of a table")
    parser.add_argument("--detach", action="store_true", help="leave it running in the background and return")
    parser.add_argument(
        "--log-file", type=Path, metavar="FILE", help="print into this file; full (2 MiB), it is renamed FILE.1, FILE.2"
    )


def run(args: argparse.Namespace) -> int:
    """Check all that can be checked without Ray, then run. Exit code 0 after a drain, 1 if it was not in order."""
    config, _ = prepare(args.config, _bear)
    for warning in config.warnings:
        print(f"warning: {args.config}: {worded(str(warning), args.config)}", file=sys.stderr)
    for secret in shipped_secrets(args.config, config):
        print(f"warning: {secret}", file=sys.stderr)
    # Ray comes last: it takes seconds, and nothing above needs it
    from actors import launch

    plan = launch.plan_launch(args.config, config, address=args.address, name=args.name, detached=args.detach)
    session.refuse_second(plan.spec.namespace, os.environ)
    if args.detach and not plan.address:
        from actors.cli.background import run_in_background

        print(run_in_background(args.config, plan.spec.namespace, args.log_file))
        return exits.OK
    from actors.cli.foreground import run_here

    return run_here(plan, json=args.json, detach=args.detach, log_file=args.log_file)


def _bear(absent: BrokerUnreachable) -> None:
    print(f"warning: {absent}; its flows wait for it, the others begin", file=sys.stderr)
