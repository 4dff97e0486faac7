"""`raymirror drain --node NODE`: empties a node before it is shut down; a pod's preStop hook calls it.

It announces the end of the node to Ray, so that nothing new starts there. Then the copiers of the node hand their sets
to other copiers. If Spark's host is on the node, it starts again elsewhere.
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
    parser.add_argument("--node", required=True, metavar="ID", help="hex id of the Ray node, or `this` for this node")
    parser.add_argument(
        "--timeout",
        type=float,
        default=50.0,
        metavar="SECONDS",
        help="how long to wait until the last copier has left the node (default: 50)",
    )
    add_json_argument(parser)
    add_place_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Empty the node. Exit code 1 if copiers are still on it. Raises NoMirror, NodeStays."""
    with mirror_on_ray(args) as (mirror, _):
        node = mirror.connection.this_node() if args.node == THIS else args.node
        mirror.connection.announce_end(node, args.timeout)
        deadline = time.monotonic() + args.timeout
        while left := mirror.clear_node(node):
            if time.monotonic() > deadline:
                print(
                    f"{counted(left, 'copier')} still on node {node} after {args.timeout:.0f} s; see: raymirror status",
                    file=sys.stderr,
                )
                say_facts(args, command="drain", node=node, done=False, copiers=left)
                return exits.FAILED
            time.sleep(POLL_S)
    say(args, f"node {node} has no copiers", command="drain", node=node, done=True, copiers=0)
    return exits.OK
