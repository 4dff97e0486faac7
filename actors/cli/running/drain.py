"""`raymirror drain --node NODE`: have a node emptied before it goes away, as a pod's preStop hook does.

Ray is told that the node is going, so that nothing new starts there; then its copiers hand their sets over to others,
and Spark's host, where it is there, begins anew elsewhere.
"""

import argparse
import sys
import time

from actors.cli.common import exits
from actors.cli.common.connect_args import add_place_arguments, mirror_on_ray
from actors.cli.common.flags import add_json_argument, say, say_facts
from policies.words import counted

POLL_S = 0.5
THIS = "this"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--node", required=True, metavar="ID", help="Ray node id in hex, or: this")
    parser.add_argument(
        "--timeout",
        type=float,
        default=50.0,
        metavar="SECONDS",
        help="how long to wait for the last copier (default: 50)",
    )
    add_json_argument(parser)
    add_place_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Empty the node. Exit code 1 if copiers are there still. Raises NoMirror, NodeStays."""
    with mirror_on_ray(args) as (mirror, _):
        node = mirror.connection.this_node() if args.node == THIS else args.node
        mirror.connection.announce_end(node, args.timeout)
        deadline = time.monotonic() + args.timeout
        while left := mirror.clear_node(node):
            if time.monotonic() > deadline:
                print(
                    f"{counted(left, 'copier')} on node {node} after {args.timeout:.0f} s; see: raymirror status",
                    file=sys.stderr,
                )
                say_facts(args, command="drain", node=node, done=False, copiers=left)
                return exits.FAILED
            time.sleep(POLL_S)
    say(args, f"node {node} has no copiers", command="drain", node=node, done=True, copiers=0)
    return exits.OK
