"""A Ray cluster on this machine, its nodes started one by one with `ray start`: for what local Ray cannot show.

Nodes share this machine's address; each has its own ports, folder, processes and keeper. The control store is on
RocksDB, so that the GCS process can die and come back; the settings of nodes are those of `deploy/`. Nothing here
imports Ray into the test's process: commands get `RayCluster.env`.
"""

import contextlib
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from actors.ray.connect import UNMINDED
from deploy.local.java import find_java
from deploy.local.ports import HOST, pick_ports
from policies.placement.sites import site_resources
from tests.harness.ray_jobs import Jobs
from tests.harness.ray_node import ROOT, RayNode, kill_and_wait
from tests.harness.ray_probe import NodeSeen
from tests.harness.ray_watch import NodeWatch

COMMAND_DEADLINE_S = 120.0
OBJECT_STORE_BYTES = 80_000_000  # Ray's minimum is 75 MiB
JAVA_RESOURCE = "raymirror_java"
NODE_ENV = ROOT / "deploy" / "ray" / "node.env"
START_NODE = ROOT / "deploy" / "ray" / "start-node.sh"
RAY = [sys.executable, "-m", "ray.scripts.scripts"]


class RayCluster:
    """A head and any number of further nodes. `env` is what a command needs to reach it, RAY_ADDRESS included.

    With `token=True` it demands a token of its own, which stands in a file that `env` names, and its nodes are started
    by `deploy/ray/start-node.sh`; without, everyone on this machine may use it. With `dashboard=True` it takes `jobs`.
    `code`: where its nodes and their clients have our packages from. `head_java`: as of `add_node`.
    """

    def __init__(
        self,
        folder: Path,
        *,
        token: bool = False,
        dashboard: bool = False,
        code: Path = ROOT,
        head_java: bool = True,
    ) -> None:
        self.folder = folder
        self.nodes: list[RayNode] = []
        self._token, self._dashboard, self._head_java = token, dashboard, head_java
        self._port, self._dashboard_port = pick_ports(2)
        # Ray's unix sockets need a short path: some 65 characters come behind it, 107 are allowed.
        self._temp = Path(tempfile.mkdtemp(prefix="rc-", dir="/tmp"))
        folder.mkdir(parents=True, exist_ok=True)
        self.env = ray_env() | {
            "PYTHONPATH": f"{code}:{ROOT}",  # what starts and looks after nodes is in the clone
            "RAY_ADDRESS": self.address,
            "RAY_API_SERVER_ADDRESS": f"http://{HOST}:{self._dashboard_port}",
        }
        if token:
            path = folder / "token"
            path.touch(mode=0o600)
            path.write_text(secrets.token_hex(32))
            self.env |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(path)}
        self.jobs = Jobs(self.env["RAY_API_SERVER_ADDRESS"], self.env.get("RAY_AUTH_TOKEN_PATH"), self.ray)
        self._watch: NodeWatch | None = None
        self._killed_gcs: tuple[list[str], dict[str, str]] | None = None

    @property
    def address(self) -> str:
        """Where the GCS answers: host:port."""
        return f"{HOST}:{self._port}"

    @property
    def head(self) -> RayNode:
        """The head node."""
        return self.nodes[0]

    def ray_logs(self, node: RayNode) -> Path:
        """Where a node's Ray logs until `close`, which keeps it as `folder/ray-logs/NODE`."""
        return node.temp / "session_latest" / "logs"

    def start(self, nodes: Sequence[float] = (), *, head_cpus: float = 0) -> None:
        """Start the head, then all further nodes (logical CPUs of each) side by side; return when all are alive."""
        self.nodes = [self._launch_head(head_cpus)]
        self.head.wait_started()
        self._watch = self._new_watch()
        self._wait_alive(self.head)
        if self._dashboard:
            self.jobs.wait_ready()
        for node in [self._launch_worker(cpus, java=True) for cpus in nodes]:
            self._wait_alive(node)

    def add_node(self, cpus: float = 2, *, java: bool = True, site: str = "", address: str = "") -> RayNode:
        """Add a node and wait until it is alive; `java`: on its PATH, and told by the resource; `site`: as in docs/;
        `address`: one of this machine that it has for itself, such as 127.0.0.2.
        """
        node = self._launch_worker(cpus, java=java, site=site, address=address)
        self._wait_alive(node)
        return node

    def seen(self) -> dict[str, NodeSeen]:
        """Ask the control store for its nodes, by name. Blocks while there is no GCS."""
        assert self._watch is not None
        return by_name(self._watch.nodes())

    def until_nodes(self, holds: Callable[[dict[str, NodeSeen]], bool], what: str) -> dict[str, NodeSeen]:
        """Ask for the nodes, by name, until a condition holds of them."""
        assert self._watch is not None
        return by_name(self._watch.until(lambda nodes: holds(by_name(nodes)), what))

    def until_dead(self, node: RayNode) -> None:
        """Wait until the control store has given a node up."""
        self.until_nodes(lambda seen: not seen[node.name].alive, f"{node.name} is dead")

    def node_id(self, node: RayNode) -> str:
        """Ray's id of a node, in hex."""
        return self.seen()[node.name].node_id

    def node_of(self, node_id: str) -> RayNode:
        """Find a node by Ray's id."""
        name = next(one.name for one in self.seen().values() if one.node_id == node_id)
        return next(node for node in self.nodes if node.name == name)

    def kill_node(self, node: RayNode) -> None:
        """SIGKILL everything on a node at once; nothing of it is left on return. Ray learns of it by itself."""
        node.end()

    def freeze_node(self, node: RayNode, *, workers: bool = True) -> None:
        """SIGSTOP a node; with `workers=False` its raylet only, so that its actors work on, cut off from Ray."""
        node.freeze(workers=workers)

    def thaw_node(self, node: RayNode) -> None:
        """SIGCONT a node."""
        node.thaw()

    def drain_node(self, node: RayNode, deadline_s: int | None = None) -> None:
        """Announce to Ray that a node will be taken away, as a cloud's notice does; an idle node goes at once."""
        until = [f"--deadline-remaining-seconds={deadline_s}"] if deadline_s is not None else []
        self.ray(
            *("drain-node", f"--address={self.address}", f"--node-id={self.node_id(node)}"),
            *("--reason=DRAIN_NODE_REASON_PREEMPTION", "--reason-message=a test takes it away", *until),
        )

    def kill_gcs(self) -> None:
        """SIGKILL the GCS process and wait until it is gone; the head's other processes live on."""
        gcs = self.head.only("gcs_server")
        self._killed_gcs = (gcs.cmdline(), gcs.environ())
        kill_and_wait([gcs])

    def restart_gcs(self) -> None:
        """Start the killed GCS again, on the same port and store, and wait until it answers."""
        assert self._killed_gcs is not None, "kill_gcs first"
        self.head.start(*self._killed_gcs)
        self._killed_gcs = None
        self._wait_alive(self.head)

    def kill_head(self) -> None:
        """SIGKILL everything on the head at once: GCS, raylet, the actors there."""
        assert self._watch is not None
        self._watch.close()
        self.head.end()

    def restart_head(self) -> None:
        """Start a new head on the port and the control store of the killed one, as another machine would."""
        self.nodes[0] = self._launch_head(0)
        self.head.wait_started()
        self._watch = self._new_watch()
        self._wait_alive(self.head)

    def ray(self, *words: str) -> str:
        """Run one of Ray's commands against this cluster and return what it printed; AssertionError if it fails."""
        done = subprocess.run(
            [*RAY, *words],
            env=self.env,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=COMMAND_DEADLINE_S,
            check=False,
        )
        assert done.returncode == 0, f"ray {' '.join(words)}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def close(self) -> None:
        """End every process by pid and remove Ray's folders; the logs move into the folder of the test."""
        if self._watch is not None:
            self._watch.close()
        for node in reversed(self.nodes):
            node.end()
            if (logs := self.ray_logs(node)).exists():
                shutil.copytree(logs, self.folder / "ray-logs" / node.name, dirs_exist_ok=True)
        shutil.rmtree(self._temp, ignore_errors=True)

    def _launch_head(self, cpus: float) -> RayNode:
        words = [
            *("--head", f"--port={self._port}", f"--ray-client-server-port={pick_ports(1)[0]}"),
            *(f"--include-dashboard={str(self._dashboard).lower()}", f"--dashboard-port={self._dashboard_port}"),
        ]
        return self._launch("head", words, cpus, java=self._head_java)

    def _launch_worker(self, cpus: float, *, java: bool, site: str = "", address: str = "") -> RayNode:
        words = [f"--address={self.address}", *([f"--node-ip-address={address}"] if address else [])]
        node = self._launch(f"node-{len(self.nodes)}", words, cpus, java=java, site=site)
        self.nodes.append(node)
        return node

    def _launch(self, name: str, words: list[str], cpus: float, *, java: bool, site: str = "") -> RayNode:
        # A folder each: nodes that start side by side in one choose the same names for their sockets.
        temp = Path(tempfile.mkdtemp(dir=self._temp))
        agent, agent_grpc, runtime_env, metrics = pick_ports(4)
        # Users' nodes demand a token and are started by the script, which finds Java by itself.
        by_script = self._token and java
        resources = json.dumps(({JAVA_RESOURCE: 1} if java else {}) | site_resources(site))
        command = [
            *([str(START_NODE)] if by_script else [*RAY, "start", f"--resources={resources}"]),
            *(*words, f"--node-name={name}", f"--temp-dir={temp}"),
            *("--disable-usage-stats", f"--num-cpus={cpus:g}", "--num-gpus=0"),
            *(f"--object-store-memory={OBJECT_STORE_BYTES}", "--include-log-monitor=false"),
            *(f"--dashboard-agent-listen-port={agent}", f"--dashboard-agent-grpc-port={agent_grpc}"),
            *(f"--runtime-env-agent-port={runtime_env}", f"--metrics-export-port={metrics}"),
        ]
        env = node_env(self.env, java=java) | {"RAY_gcs_storage_path": str(self._temp / "gcs")}
        if site:
            env["RAYMIRROR_SITE"] = site
        if not by_script:
            env["RAY_gcs_storage"] = "rocksdb"
        return RayNode(name, command, env, self.folder / f"{name}.log", temp)

    def _wait_alive(self, node: RayNode) -> None:
        node.wait_started()
        self.until_nodes(lambda seen: node.name in seen and seen[node.name].alive, f"{node.name} is alive")

    def _new_watch(self) -> NodeWatch:
        return NodeWatch(self.address, self.env, self.folder / "probe.log")


def ray_env() -> dict[str, str]:
    """Give this process's environment without its Ray settings: no token, no usage report, `python` is ours.

    Machines that run tests are shared: Ray's memory monitor would end actors for what others take.
    """
    return {
        **{key: value for key, value in os.environ.items() if not key.startswith("RAY_")},
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "RAY_AUTH_MODE": "disabled",
        "RAY_USAGE_STATS_ENABLED": "0",
        **UNMINDED,
    }


def node_env(client_env: Mapping[str, str], *, java: bool = True) -> dict[str, str]:
    """Give the environment of a node: that of its clients, the settings of `deploy/ray/node.env`, Java on PATH."""
    lines = (line.partition("=") for line in NODE_ENV.read_text().splitlines() if line and not line.startswith("#"))
    settings = {name: value for name, _, value in lines}
    env = {**client_env, **settings, "RAY_worker_niceness": "0"}  # as `start-node.sh` has it: at 15, leases run out
    for name in ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS"):
        env.pop(name, None)
    if java:
        env["PATH"] = f"{find_java().parent}:{env['PATH']}"
    return env


def by_name(nodes: list[NodeSeen]) -> dict[str, NodeSeen]:
    """Sort nodes by their names; of several, as heads that followed each other, the living one counts."""
    return {one.name: one for one in sorted(nodes, key=lambda one: one.alive)}


@contextmanager
def ray_cluster(
    folder: Path,
    nodes: Sequence[float] = (),
    *,
    head_cpus: float = 0,
    token: bool = False,
    dashboard: bool = False,
    code: Path = ROOT,
    head_java: bool = True,
) -> Iterator[RayCluster]:
    """Start a cluster whose further nodes have so many CPUs each; all of it is ended at the end."""
    with contextlib.closing(
        RayCluster(folder, token=token, dashboard=dashboard, code=code, head_java=head_java)
    ) as cluster:
        cluster.start(nodes, head_cpus=head_cpus)
        yield cluster
