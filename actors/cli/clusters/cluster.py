"""`raymirror cluster up | down | status`: runs the embedded clusters `source` and `target`, to try raymirror out."""

import argparse
import asyncio
import logging
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from actors.cli.common import exits
from actors.observability.colours import print_severity
from deploy.local import state
from deploy.local.cluster import MOST_BROKERS, EmbeddedCluster, start_clusters
from deploy.local.errors import ClusterError
from deploy.local.ports import first_free
from policies.words import counted

NAMES = ("source", "target")
CONFIG = Path("mm2.properties")
PORTS = {"source": range(23111, 23117), "target": range(23121, 23127)}
"""Default ports, two for each broker: below Linux's ephemeral range and above Ray's ports."""
CONFIG_TEXT = """\
clusters = source, target
source.bootstrap.servers = {source}
target.bootstrap.servers = {target}

source->target.enabled = true
source->target.topics = orders.*, clicks
# MM2's default is 3, which needs three brokers
replication.factor = {replicas}
offset.storage.replication.factor = {replicas}
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the three actions."""
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    up = actions.add_parser("up", help="start both clusters, or only their dead brokers; they run until `down`")
    up.add_argument("--brokers", type=int, choices=range(1, MOST_BROKERS + 1), default=1, help="per cluster (1)")
    up.add_argument("--sample", action="store_true", help="create topics, records and a consumer group on the source")
    up.add_argument(
        "--config",
        type=Path,
        default=CONFIG,
        metavar="FILE",
        help=f"write a configuration for a mirror between them, unless the file exists ({CONFIG})",
    )
    up.set_defaults(action=start)
    down = actions.add_parser("down", help="stop both clusters and remove their data")
    down.set_defaults(action=stop)
    status = actions.add_parser("status", help="show what runs")
    status.set_defaults(action=show)
    for action in (up, down, status):
        action.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Run the given action; return 0 fine, 1 failed, 3 nothing runs. Raises ClusterError."""
    return int(args.action(args))


def start(args: argparse.Namespace) -> int:
    """Start both clusters, or only their dead brokers with their data."""
    with state.locked_state():
        if records := state.read_records():
            done = revive(records)
        else:
            start_new(args.brokers)
            done = "started"
        records = state.read_records()
        made = sample(records) if args.sample else ""
    config = write_config(args.config, records)
    if args.json:
        return show(args)
    print(done)
    code = show_records(records)
    if made:
        print(made)
    print(config)
    return code


def start_new(brokers: int) -> None:
    """Start empty clusters, if possible on the ports of the last ones."""
    shutil.rmtree(state.clusters_folder(), ignore_errors=True)
    last, clusters = state.read_ports(), []
    for name in NAMES:
        ports = first_free([last.get(name, []), PORTS[name]], 2 * brokers)
        clusters.append(EmbeddedCluster(name, state.clusters_folder() / name, brokers=brokers, ports=ports))
    start_clusters(*clusters)
    try:
        state.write_records([state.record_of(cluster) for cluster in clusters])
    except BaseException:
        # `down` must know every broker that runs.
        for cluster in clusters:
            cluster.stop()
        raise


def revive(records: tuple[state.ClusterRecord, ...]) -> str:
    """Start the dead brokers; return a text about it."""
    dead = [broker for record in records for broker in record.brokers if state.living_process(broker) is None]
    if not dead:
        return "already up (`raymirror cluster down` first for fresh ones)"
    state.revive_recorded(records)
    return f"{counted(len(dead), 'dead broker')} started again, with the data"


def sample(records: tuple[state.ClusterRecord, ...]) -> str:
    """Create sample data on the source, unless it exists; return a text about it. Raises SampleFailed."""
    from actors.demo.sample import make_sample  # imports a Kafka client, which nothing else here needs

    (source,) = (record for record in records if record.name == NAMES[0])
    with kafka_client_quiet():
        return asyncio.run(make_sample(source.bootstrap_servers))


@contextmanager
def kafka_client_quiet() -> Iterator[None]:
    """Silence the client's log lines about topics that are being created: the client retries on its own."""
    logger = logging.getLogger("aiokafka")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


def write_config(path: Path, records: tuple[state.ClusterRecord, ...]) -> str:
    """Write a configuration, unless the file exists; return a text about it."""
    servers = {record.name: record.bootstrap_servers for record in records}
    replicas = min(3, *(len(record.brokers) for record in records))
    text = CONFIG_TEXT.format(**servers, replicas=replicas)
    try:
        with path.open("x") as file:
            file.write(text)
    except FileExistsError:
        if path.read_text() != text:
            return f"{path} exists already and is left as it is; to write another file: --config FILE"
    except OSError as error:
        raise ClusterError(f"the clusters run, but {path} cannot be written", str(error)) from error
    return f"{path}: a mirror between them; next: raymirror check {path}"


def stop(args: argparse.Namespace) -> int:
    """Stop both clusters and remove their data."""
    with state.locked_state():
        records = state.read_records()
        state.stop_recorded(records)
        if state.clusters_folder().exists():
            shutil.rmtree(state.clusters_folder())
        state.forget_records()
    if args.json:
        print(msgspec.json.encode({"stopped": [record.name for record in records]}).decode())
    else:
        print("stopped" if records else "no clusters were running")
    return exits.OK


def show(args: argparse.Namespace) -> int:
    """Show the clusters; return 1 if a broker is dead, 3 if no clusters run."""
    records = state.read_records()
    if args.json:
        print(msgspec.json.encode({"clusters": [describe(record) for record in records]}).decode())
        return exit_code(records)
    if not records:
        print("no clusters are running (`raymirror cluster up` starts them)", file=sys.stderr)
        return exits.NO_MIRROR
    return show_records(records)


def show_records(records: tuple[state.ClusterRecord, ...]) -> int:
    for record in records:
        print(f"{record.name:<8} {record.bootstrap_servers}")
        for broker in record.brokers:
            lives = state.living_process(broker) is not None
            word = f"pid {broker.pid}" if lives else "dead"
            line = f"  broker {broker.node_id}  {word:<12} log {broker.log_file}"
            print_severity("info" if lives else "error", line)
    code = exit_code(records)
    if code == exits.FAILED:
        print("start the dead brokers again, with their data: raymirror cluster up")
    return code


def exit_code(records: tuple[state.ClusterRecord, ...]) -> int:
    """Return 0 if all brokers run, 1 if some are dead, 3 without clusters."""
    if not records:
        return exits.NO_MIRROR
    all_run = all(state.living_process(broker) for record in records for broker in record.brokers)
    return exits.OK if all_run else exits.FAILED


def describe(record: state.ClusterRecord) -> dict[str, Any]:
    """Return a cluster as `--json` prints it."""
    brokers = [
        {**msgspec.to_builtins(broker), "running": state.living_process(broker) is not None}
        for broker in record.brokers
    ]
    return {"name": record.name, "bootstrap_servers": record.bootstrap_servers, "brokers": brokers}
