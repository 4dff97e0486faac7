"""The autoscaled cluster of `deploy/ray/cluster.yaml` on this machine: Ray's own autoscaler with a fake cloud.

Node types, numbers and custom resources are those of the file. The harness replaces the provider (Ray's fake one: a
node is a set of processes), the sizes of nodes, the idle time of a node, and all keys about machines.
"""

import contextlib
import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from deploy.local.ports import HOST, pick_ports
from policies.placement.sites import site_resources
from tests.harness.ray_cluster import OBJECT_STORE_BYTES, RAY, node_env, ray_env
from tests.harness.ray_node import ROOT, RayNode
from tests.harness.ray_probe import NodeSeen
from tests.harness.ray_watch import NodeWatch

CLUSTER_FILE = ROOT / "deploy" / "ray" / "cluster.yaml"
# The fake provider knows its head by this id and counts the others on from it.
_HEAD_ID = "f" * 51 + "00000"
_NO_MACHINES: dict[str, Any] = {
    "auth": {},
    "docker": {},
    "file_mounts": {},
    "file_mounts_sync_continuously": False,
    "initialization_commands": [],
    "setup_commands": [],
    "head_setup_commands": [],
    "worker_setup_commands": [],
    "head_start_ray_commands": [],
    "worker_start_ray_commands": [],
    "cluster_synced_files": [],
    "rsync_exclude": [],
    "rsync_filter": [],
}


class FakeCloud:
    """An autoscaled cluster without token and dashboard; `env` is what a command needs to reach it."""

    def __init__(self, folder: Path, *, cpus: int = 2, idle_s: float = 6.0, sites: Sequence[str] = ()) -> None:
        self.folder = folder
        self._port, self._client_port, self._dashboard_port = pick_ports(3)
        # Ray's unix sockets need a short path.
        self._temp = Path(tempfile.mkdtemp(prefix="fc-", dir="/tmp"))
        self.env = ray_env() | {"RAY_ADDRESS": self.address}
        config = with_sites(yaml.safe_load(CLUSTER_FILE.read_text()), sites)
        self.config = translate(config, self.address, cpus=cpus, idle_s=idle_s)
        self._head: RayNode | None = None
        self._watch: NodeWatch | None = None

    @property
    def address(self) -> str:
        """Where the GCS answers: host:port."""
        return f"{HOST}:{self._port}"

    @property
    def fewest(self) -> int:
        """How many nodes there are beside the head when nobody asks for any."""
        return sum(kind.get("min_workers", 0) for kind in self.config["available_node_types"].values())

    def start(self) -> None:
        """Start the head and its autoscaler; return when the fewest nodes are alive."""
        self.folder.mkdir(parents=True, exist_ok=True)
        config_file = self.folder / "fake-cloud.yaml"
        config_file.write_text(yaml.safe_dump(self.config))
        head_type = self.config["available_node_types"][self.config["head_node_type"]]
        custom = {name: count for name, count in head_type["resources"].items() if name != "CPU"}
        command = [
            *(*RAY, "start", "--head", f"--port={self._port}", f"--temp-dir={self._temp}", "--disable-usage-stats"),
            *(f"--num-cpus={head_type['resources']['CPU']}", "--num-gpus=0", f"--resources={json.dumps(custom)}"),
            *(f"--object-store-memory={OBJECT_STORE_BYTES}", "--include-dashboard=false"),
            *(f"--dashboard-port={self._dashboard_port}", f"--ray-client-server-port={self._client_port}"),
            *("--include-log-monitor=false", f"--autoscaling-config={config_file}"),
        ]
        env = node_env(self.env) | {
            "RAY_FAKE_CLUSTER": "1",
            "RAY_enable_autoscaler_v2": "1",
            "AUTOSCALER_UPDATE_INTERVAL_S": "1",
            "RAY_CLOUD_INSTANCE_ID": _HEAD_ID,
            "RAY_OVERRIDE_NODE_ID_FOR_TESTING": _HEAD_ID,
        }
        self._head = RayNode("head", command, env, self.folder / "head.log", self._temp)
        self._head.wait_started()
        self._watch = NodeWatch(self.address, self.env, self.folder / "probe.log")
        self.until_nodes(self.fewest)

    def nodes(self) -> list[NodeSeen]:
        """List the living nodes beside the head."""
        assert self._watch is not None
        return _beside_head(self._watch.nodes())

    def until_nodes(self, count: int) -> list[NodeSeen]:
        """Wait until so many nodes beside the head are alive, and the head too."""
        assert self._watch is not None

        def there(seen: list[NodeSeen]) -> bool:
            head = [one for one in seen if one.node_id == _HEAD_ID and one.alive]
            return len(head) == 1 and len(_beside_head(seen)) == count

        return _beside_head(self._watch.until(there, f"{count} nodes beside the head"))

    def close(self) -> None:
        """End every process of every node by pid and remove Ray's folder; its logs move into the folder of the test."""
        if self._watch is not None:
            self._watch.close()
        if self._head is not None:
            self._head.end()
        if (logs := self._temp / "session_latest" / "logs").exists():
            shutil.copytree(logs, self.folder / "ray-logs", dirs_exist_ok=True)
        shutil.rmtree(self._temp, ignore_errors=True)


def with_sites(config: dict[str, Any], sites: Sequence[str]) -> dict[str, Any]:
    """Add a node type for each site, as `docs/placement.md` says, without a node until somebody asks for one."""
    copiers, types = config["available_node_types"]["copiers"], dict(config["available_node_types"])
    for site in sites:
        resources = {**copiers["resources"], **site_resources(site)}
        types[f"copiers-{site}"] = {**copiers, "min_workers": 0, "resources": resources}
    return {**config, "available_node_types": types}


def translate(config: dict[str, Any], address: str, *, cpus: int, idle_s: float) -> dict[str, Any]:
    """Turn a launcher's configuration for a cloud into the same cluster on the fake one, `cpus` per node."""
    types = {name: {**kind, "node_config": {}} for name, kind in config["available_node_types"].items()}
    for name, kind in types.items():
        if name != config["head_node_type"]:
            # No `memory` here: the provider would pass it on as a custom resource, which Ray refuses.
            kind["resources"] = {**kind["resources"], "CPU": cpus, "object_store_memory": OBJECT_STORE_BYTES}
    provider = {
        # By its module: the type `fake_multinode` reads a file that Ray's wheel does not have.
        "type": "external",
        "module": "ray.autoscaler._private.fake_multi_node.node_provider.FakeMultiNodeProvider",
        "use_node_id_as_ip": True,
        "disable_node_updaters": True,
        "disable_launch_config_check": True,
        "gcs_address": address,
        "head_node_id": _HEAD_ID,
        "launch_multiple": True,
    }
    exchanged = {"provider": provider, "available_node_types": types, "idle_timeout_minutes": idle_s / 60}
    return {**config, **_NO_MACHINES, **exchanged}


def _beside_head(seen: list[NodeSeen]) -> list[NodeSeen]:
    return [one for one in seen if one.alive and one.node_id != _HEAD_ID]


@contextmanager
def fake_cloud(folder: Path, *, cpus: int = 2, idle_s: float = 6.0, sites: Sequence[str] = ()) -> Iterator[FakeCloud]:
    """Start an autoscaled cluster whose nodes have so many CPUs and may be idle so long; end all of it at the end."""
    with contextlib.closing(FakeCloud(folder, cpus=cpus, idle_s=idle_s, sites=sites)) as cloud:
        cloud.start()
        yield cloud
