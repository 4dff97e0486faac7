"""`raymirror run CONFIG`: starts or joins the mirror, follows it, and drains it at the end."""

import argparse
import os
import sys
from functools import partial
from pathlib import Path

from actors.cli.common import exits
from actors.cli.common.flags import warn
from actors.cli.common.steps import StartSteps
from actors.local import session
from actors.local.reservation import refuse_starting, reserved
from engine.config.file.file_kind import worded
from policies.placement.sites import HERE


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("config", type=Path, metavar="CONFIG", help="mm2.properties or mirror.yaml")
    parser.add_argument("--address", help="Ray cluster, HOST:PORT (default: RAY_ADDRESS, else start a local Ray)")
    parser.add_argument("--name", "--mirror", metavar="NAME", help="name of the mirror (default: built from its flows)")
    parser.add_argument("--json", action="store_true", help="print one JSON status per second instead of a table")
    parser.add_argument("--detach", action="store_true", help="run the mirror in the background and return")
    parser.add_argument(
        "--forget-failover",
        action="append",
        default=[],
        metavar="FLOW",
        help="copy a flow again that was failed over; what applications wrote to the target is not copied back",
    )
    parser.add_argument(
        "--log-file",
        type=Path,
        metavar="FILE",
        help="print to this file; at 2 MiB it is renamed FILE.1, then FILE.2",
    )


def run(args: argparse.Namespace) -> int:
    """Check everything that needs no Ray, then run. Exit code 0 after a drain, 1 if the mirror did not end in order.

    The mirror waits for a cluster that does not answer. A cluster that refuses the login ends the command here, and so
    does a missing right that stops every flow. If it stops only some, the others start.
    """
    steps = StartSteps(quiet=args.json)
    steps.say(f"reading {args.config}")
    # imported here: Kafka's clients take 1 s on slow disks
    from actors.config.checks import ask_clusters, shipped_secrets, unchecked_flows
    from engine.config.config import load_config
    from engine.config.placement_config import NEAR_KEY

    config = load_config(args.config)
    steps.say(f"asking the clusters {' and '.join(config.clusters)}")

    def tell(waits: str) -> None:
        warn(worded(waits, args.config))

    config, checked = ask_clusters(config, tell, tell)
    for warning in config.warnings:
        warn(f"{args.config}: {worded(str(warning), args.config)}")
    for secret in shipped_secrets(args.config, config):
        warn(secret)
    # imported last: Ray takes seconds, and nothing above needs it
    from actors.ray import launch

    plan = launch.plan_launch(
        args.config,
        config,
        address=args.address,
        name=args.name,
        detached=args.detach,
        unchecked=unchecked_flows(config, checked),
    )
    if plan.sites and not plan.address:
        warn(f"{args.config}: {NEAR_KEY}: {HERE}")
    unnamed = not args.name and not plan.address
    namespace, path = plan.spec.namespace, str(session.absolute(args.config))
    try:
        session.refuse_second(namespace, os.environ, config=path, unnamed=unnamed)
    except session.AlreadyRunning as already:
        if args.json or plan.address or not can_ask():
            raise
        from actors.cli.running.reload import offer

        return offer(args, config, plan.spec.unchecked, already)
    refuse_starting(namespace, path, os.environ, unnamed=unnamed)
    if args.forget_failover:
        import asyncio

        from actors.cli.common.questions import chosen_flows
        from actors.cli.failover.forgetting import forget_failover

        for name in args.forget_failover:
            (flow,) = chosen_flows(config, name)
            asyncio.run(forget_failover(config, flow, namespace))
    if args.detach and not plan.address:
        from actors.cli.running.background import run_in_background

        steps.say("starting the mirror in the background")
        print(run_in_background(args.config, namespace, args.log_file))
        return exits.OK
    from actors.cli.running.foreground import run_here

    here = partial(run_here, plan, json=args.json, detach=args.detach, log_file=args.log_file, steps=steps)
    if plan.address:  # several processes may follow one mirror of a Ray cluster
        return here()
    with reserved(namespace, path, os.environ) as reservation:
        return here(reservation=reservation)


def can_ask() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()
