"""`raymirror cluster up | down | status`: the embedded clusters `source` and `target`, for trying out."""

import argparse
import shutil
import sys
from typing import Any

import msgspec

from actors.cli import exits
from deploy.local import state
from deploy.local.cluster import MOST_BROKERS, Cluster, start_clusters

NAMES = ("source", "target")
HELP = "start, stop and show the embedded clusters"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the three actions."""
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    up = actions.add_parser("up", help="start both clusters; they run on until `down`")
    up.add_argument("--brokers", type=int, choices=range(1, MOST_BROKERS + 1), default=1, help="per cluster (1)")
    up.set_defaults(action=start)
    down = actions.add_parser("down", help="stop both clusters and remove their data")
    down.set_defaults(action=stop)
    status = actions.add_parser("status", help="show what runs")
    status.add_argument("--json", action="store_true", help="one JSON object")
    status.set_defaults(action=show)


def run(args: argparse.Namespace) -> int:
    """Run the action that was asked for; 0 fine, 1 failed, 3 nothing runs. Raises ClusterError."""
    return int(args.action(args))


def start(args: argparse.Namespace) -> int:
    """Start both clusters, unless they run."""
    with state.locked_state():
        records = state.read_records()
        if any(state.living_process(broker) for record in records for broker in record.brokers):
            print("already up (`raymirror cluster down` first for fresh ones)")
            return show_records(records)
        shutil.rmtree(state.clusters_folder(), ignore_errors=True)
        clusters = [Cluster(name, state.clusters_folder() / name, brokers=args.brokers) for name in NAMES]
        start_clusters(*clusters)
        try:
            state.write_records(clusters)
        except BaseException:
            # Nothing may run that `down` does not know of.
            for cluster in clusters:
                cluster.stop()
            raise
        return show_records(state.read_records())


def stop(_args: argparse.Namespace) -> int:
    """Stop both clusters and remove what they stored."""
    with state.locked_state():
        records = state.read_records()
        state.stop_recorded(records)
        if state.clusters_folder().exists():
            shutil.rmtree(state.clusters_folder())
        state.forget_records()
        print("stopped" if records else "no clusters were up")
    return exits.OK


def show(args: argparse.Namespace) -> int:
    """Show the clusters; 1 if a broker is gone, 3 if there are none."""
    records = state.read_records()
    if args.json:
        print(msgspec.json.encode({"clusters": [describe(record) for record in records]}).decode())
        return exit_code(records)
    if not records:
        print("no clusters are up (`raymirror cluster up` starts them)", file=sys.stderr)
        return exits.NO_MIRROR
    return show_records(records)


def show_records(records: tuple[state.ClusterRecord, ...]) -> int:
    """Print a line per cluster and per broker."""
    for record in records:
        print(f"{record.name:<8} {record.bootstrap_servers}")
        for broker in record.brokers:
            word = f"pid {broker.pid}" if state.living_process(broker) else "gone"
            print(f"  broker {broker.node_id}  {word:<12} log {broker.log_file}")
    return exit_code(records)


def exit_code(records: tuple[state.ClusterRecord, ...]) -> int:
    """0 all brokers run, 1 some are gone, 3 no clusters."""
    if not records:
        return exits.NO_MIRROR
    all_run = all(state.living_process(broker) for record in records for broker in record.brokers)
    return exits.OK if all_run else exits.FAILED


def describe(record: state.ClusterRecord) -> dict[str, Any]:
    """A cluster as `--json` shows it."""
    brokers = [
        {**msgspec.to_builtins(broker), "running": state.living_process(broker) is not None}
        for broker in record.brokers
    ]
    return {"name": record.name, "bootstrap_servers": record.bootstrap_servers, "brokers": brokers}
