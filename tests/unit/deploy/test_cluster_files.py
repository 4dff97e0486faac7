"""deploy/ray/*.yaml and runtime-env.yaml as Ray reads them, keys that Ray ignores, and versions across deploy/."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from actors.ray.connect import ROTATED

CLONE = Path(__file__).parents[3]
DEPLOY = CLONE / "deploy"
LAUNCHED = {name: yaml.safe_load((DEPLOY / "ray" / f"{name}.yaml").read_text()) for name in ("cluster", "on-prem")}
AWS = LAUNCHED["cluster"]
both = pytest.mark.parametrize("config", LAUNCHED.values(), ids=LAUNCHED)


def ask_ray(code: str, about: Any, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run code with Ray's modules on a document; in a process of its own, because Ray changes the one it is in."""
    return subprocess.run(
        [sys.executable, "-c", f"import json, sys\nabout = json.load(sys.stdin)\n{code}"],
        input=json.dumps(about),
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=120,
        check=False,
    )


VALIDATE = (
    "from ray.autoscaler._private.util import prepare_config, validate_config\n"
    "config = prepare_config(about)\nvalidate_config(config)\nprint(json.dumps(config))"
)


def prepared(config: Any, folder: Path) -> Any:
    """Give the file as the launcher uses it: checked, with its defaults filled in."""
    done = ask_ray(VALIDATE, config, folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.local
@both
def test_rays_launcher_takes_the_file(config: Any, tmp_path: Path) -> None:
    ready = prepared(config, tmp_path)
    for phase in ("initialization", "setup", "head_setup", "worker_setup"):
        assert ready[f"{phase}_commands"] == [], "no default of Ray's installs another Ray"


@pytest.mark.local
def test_a_typo_would_be_seen(tmp_path: Path) -> None:
    done = ask_ray(VALIDATE, {**AWS, "max_worker": 3}, tmp_path)
    assert done.returncode == 1
    assert "max_worker" in done.stderr


@pytest.mark.local
def test_the_head_is_named_and_holds_no_copier(tmp_path: Path) -> None:
    # Ray would fill in a head of its own where this is missing.
    head = AWS["available_node_types"][AWS["head_node_type"]]
    assert head["resources"] == {"CPU": 0, "raymirror_java": 1}
    assert prepared(AWS, tmp_path)["available_node_types"][AWS["head_node_type"]]["max_workers"] == 0


def test_no_node_type_is_capped_by_all_together() -> None:
    workers = {name: kind for name, kind in AWS["available_node_types"].items() if name != AWS["head_node_type"]}
    for kind in workers.values():
        assert kind["resources"]["raymirror_java"] == 1
        assert kind["resources"]["CPU"] >= 1
        assert 0 < kind["min_workers"] <= kind["max_workers"] <= AWS["max_workers"]


def test_every_type_of_node_has_the_keys_of_its_cloud() -> None:
    for kind in AWS["available_node_types"].values():
        assert set(kind["node_config"]) == {"InstanceType", "ImageId"}, "Ray does not look in here"


@both
def test_nodes_are_started_by_the_script_that_demands_a_token(config: Any) -> None:
    (head,) = (line for line in config["head_start_ray_commands"] if line.startswith("start-node.sh"))
    (worker,) = (line for line in config["worker_start_ray_commands"] if line.startswith("start-node.sh"))
    assert "--head" in head.split()
    assert "--num-cpus=0" in head.split(), "on machines of one's own the node's type does not say so"
    assert "--autoscaling-config=~/ray_bootstrap_config.yaml" in head.split()
    assert "--dashboard-host=127.0.0.1" in head.split()
    assert worker.split() == ["start-node.sh", "--address=$RAY_HEAD_IP:6379"]
    options = config["docker"]["run_options"]
    assert "--env RAY_AUTH_MODE=token" in options
    (path,) = (option.partition("=")[2] for option in options if option.startswith("--env RAY_AUTH_TOKEN_PATH="))
    assert config["file_mounts"][path] == "~/.ray/auth_token"


@both
def test_a_node_drains_before_its_ray_is_stopped(config: Any) -> None:
    drain, stop, _start = config["worker_start_ray_commands"]
    assert "RAY_ADDRESS=$RAY_HEAD_IP:6379 raymirror drain --node this --timeout 50" in drain
    assert stop == "ray stop"


@both
def test_the_control_store_lies_on_a_volume(config: Any) -> None:
    script = (DEPLOY / "ray" / "start-node.sh").read_text()
    (volume,) = config["docker"]["head_run_options"]
    mounted = volume.partition(":")[2]
    assert f"RAY_gcs_storage_path:-{mounted}/" in script
    assert f"raymirror {mounted}" in (DEPLOY / "image" / "Dockerfile").read_text(), "made and owned in the image"


def test_both_launched_clusters_differ_only_in_their_machines() -> None:
    machines = {"provider", "auth", "available_node_types", "head_node_type", "max_workers", "idle_timeout_minutes"}
    machines |= {"upscaling_speed"}
    shared = [{key: value for key, value in config.items() if key not in machines} for config in LAUNCHED.values()]
    assert shared[0] == shared[1]


def test_settings_of_nodes_are_the_same_on_kubernetes() -> None:
    lines = [line for line in (DEPLOY / "ray" / "node.env").read_text().splitlines() if line and line[0] != "#"]
    cluster = next(yaml.safe_load_all((DEPLOY / "kubernetes" / "raycluster.yaml").read_text()))["spec"]
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        (container,) = group["template"]["spec"]["containers"]
        assert [f"{entry['name']}={entry['value']}" for entry in container["env"]] == lines


def test_nodes_rotate_ray_s_logs_as_a_mirror_on_one_machine_does() -> None:
    lines = (DEPLOY / "ray" / "node.env").read_text().splitlines()
    assert {f"{name}={value}" for name, value in ROTATED.items()} <= set(lines)


@pytest.mark.local
def test_ray_takes_the_runtime_environment(tmp_path: Path) -> None:
    given = yaml.safe_load((DEPLOY / "runtime-env.yaml").read_text())
    code = "from ray.runtime_env import RuntimeEnv\nprint(json.dumps(RuntimeEnv(**about).to_dict()))"
    done = ask_ray(code, given, tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["env_vars"] == {"RAY_JOB_STOP_WAIT_TIME_S": "60"}


def locked(package: str) -> str:
    found = re.search(rf"^{package}==(\S+)", (CLONE / "requirements.lock").read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


def test_every_image_is_the_one_of_this_version_and_its_ray() -> None:
    version = tomllib.loads((CLONE / "pyproject.toml").read_text())["project"]["version"]
    files = [path for path in DEPLOY.rglob("*") if path.suffix in (".yaml", ".md") or path.name == "Dockerfile"]
    tags = {
        (path.name, tag)
        for path in files
        for tag in re.findall(r"(?<![\w./-])raymirror:([0-9][\w.+-]*)", path.read_text())
    }
    assert {name for name, _ in tags} >= {"Dockerfile", "cluster.yaml", "on-prem.yaml", "raycluster.yaml"}
    assert {tag for _, tag in tags} == {f"{version}-ray{locked('ray')}"}
    cluster = next(yaml.safe_load_all((DEPLOY / "kubernetes" / "raycluster.yaml").read_text()))
    assert cluster["spec"]["rayVersion"] == locked("ray")


def test_the_image_tells_processes_what_login_shells_read() -> None:
    """`profile.sh` of install.sh and the environment of the image agree, whichever way a command is started."""
    dockerfile = (DEPLOY / "image" / "Dockerfile").read_text()
    assert "install.sh /opt/raymirror" in dockerfile
    assert "PATH=/opt/raymirror/venv/bin:" in dockerfile
    assert "RAYMIRROR_CACHE=/opt/raymirror/cache" in dockerfile
    assert re.search(r"^USER 1000", dockerfile, re.MULTILINE)


@pytest.mark.local
def test_the_steps_of_the_image_are_shell() -> None:
    """There is no Docker to try it with; a slip in the shell would be seen."""
    text = (DEPLOY / "image" / "Dockerfile").read_text()
    joined = re.sub(r"\\\n(?:\s*#[^\n]*\n)*", " ", text)
    steps = [line.removeprefix("RUN ") for line in joined.splitlines() if line.startswith("RUN ")]
    assert len(steps) == 3
    for step in steps:
        script = re.sub(r"^--mount=\S+ ", "", step)
        done = subprocess.run(["bash", "-n", "-c", script], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
