"""start-node.sh, with a fake `ray` and `java` that only print their arguments."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.local

SCRIPT = Path(__file__).parents[3] / "deploy" / "ray" / "start-node.sh"


class Node:
    """A machine: `bin` is its PATH besides the system's own tools."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        self.bin.mkdir()
        for tool in ("bash", "dirname", "readlink", "sed", "head", "mkdir", "cat", "env"):
            found = shutil.which(tool)
            assert found is not None
            (self.bin / tool).symlink_to(found)
        # Prints its words and environment, one a line, each ended by a zero byte.
        self.program("ray", "printf '%s\\0' \"$@\"; printf '\\0'; env -0")
        self.program("python", "exit 1")
        self.env = {
            "PATH": str(self.bin),
            "HOME": str(folder),
            "RAY_AUTH_TOKEN": "t",
            "RAY_gcs_storage_path": str(folder / "gcs"),
        }

    def program(self, name: str, body: str, folder: Path | None = None) -> Path:
        path = (folder or self.bin) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!{self.bin / 'bash'}\n{body}\n")
        path.chmod(0o755)
        return path

    def java(self, version: str, folder: Path | None = None) -> Path:
        return self.program("java", f"echo 'openjdk version \"{version}\" 2025-04-15' >&2", folder)

    def start(self, *words: str, **env: str | None) -> subprocess.CompletedProcess[str]:
        given = {name: value for name, value in {**self.env, **env}.items() if value is not None}
        return subprocess.run([SCRIPT, *words], env=given, capture_output=True, text=True, timeout=60, check=False)

    def started(self, *words: str, **env: str | None) -> tuple[list[str], dict[str, str]]:
        """Start it and return the words and the environment that `ray` got."""
        done = self.start(*words, **env)
        assert done.returncode == 0, done.stderr
        told, _, environment = done.stdout.partition("\0\0")
        return told.split("\0"), dict(pair.split("=", 1) for pair in environment.split("\0") if pair)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def resources(words: list[str]) -> Any:
    given = [word.removeprefix("--resources=") for word in words if word.startswith("--resources=")]
    return json.loads(given[0]) if given else None


def test_without_a_token_nothing_starts(node: Node) -> None:
    done = node.start("--address=h:1", RAY_AUTH_TOKEN=None)
    assert done.returncode == 2
    assert "no token in RAY_AUTH_TOKEN" in done.stderr
    assert str(node.folder / ".ray" / "auth_token") in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("written", ["", "secret-token"])
def test_a_token_file_counts_unless_it_is_empty(node: Node, written: str) -> None:
    path = node.folder / "token"
    path.write_text(written)
    done = node.start("--address=h:1", RAY_AUTH_TOKEN=None, RAY_AUTH_TOKEN_PATH=str(path))
    assert done.returncode == (0 if written else 2)
    assert "secret-token" not in done.stdout + done.stderr


def test_authentication_cannot_be_turned_off(node: Node) -> None:
    done = node.start("--address=h:1", RAY_AUTH_MODE="disabled")
    assert done.returncode == 2
    assert "RAY_AUTH_MODE is disabled; it must be token" in done.stderr
    assert node.started("--address=h:1")[1]["RAY_AUTH_MODE"] == "token"


def test_java_goes_first_on_path_and_is_told_as_a_resource(node: Node) -> None:
    java = node.java("17.0.15", node.folder / "jdk" / "bin")
    words, env = node.started("--address=h:1", JAVA_HOME=str(node.folder / "jdk"))
    assert words[:2] == ["start", "--address=h:1"]
    assert resources(words) == {"raymirror_java": 1}
    assert env["PATH"].split(os.pathsep)[0] == str(java.parent)


@pytest.mark.parametrize("version", ["11.0.2", "1.8.0_372", "24.0.1"])
def test_a_java_that_spark_cannot_use_is_passed_over(node: Node, version: str) -> None:
    node.java(version)
    fit = node.java("21.0.4", node.folder / "wheel" / "bin")
    node.program("python", f"echo {fit}")
    words, env = node.started("--address=h:1")
    assert resources(words) == {"raymirror_java": 1}
    assert env["PATH"].split(os.pathsep)[0] == str(fit.parent)


def test_without_java_the_node_starts_and_does_not_claim_one(node: Node) -> None:
    node.java("11.0.2")
    words, _ = node.started("--address=h:1")
    assert resources(words) is None
    assert "Spark will not run on this node" in node.start("--address=h:1").stderr


def test_settings_are_given_unless_the_environment_has_them(node: Node) -> None:
    _, env = node.started("--address=h:1", RAY_health_check_period_ms="700")
    assert env["RAY_health_check_period_ms"] == "700"
    assert env["RAY_health_check_failure_threshold"] == "3"
    assert env["RAY_gcs_rpc_server_reconnect_timeout_s"] == "600"


def test_a_head_keeps_its_control_store_on_disk(node: Node) -> None:
    _, env = node.started("--head", "--port=6379")
    assert env["RAY_gcs_storage"] == "rocksdb"
    assert Path(env["RAY_gcs_storage_path"]).is_dir()
    _, env = node.started("--address=h:1")
    assert "RAY_gcs_storage" not in env


def test_a_head_whose_store_cannot_be_written_does_not_start(node: Node) -> None:
    (node.folder / "file").write_text("")
    folder = str(node.folder / "file" / "gcs")
    done = node.start("--head", RAY_gcs_storage_path=folder)
    assert done.returncode == 2
    assert f"{folder}, which cannot be written" in done.stderr
    assert node.start("--head", RAY_gcs_storage_path=folder, RAY_REDIS_ADDRESS="redis:6379").returncode == 0


def test_the_object_store_is_small_unless_the_caller_says_otherwise(node: Node) -> None:
    assert "--object-store-memory=200000000" in node.started("--address=h:1")[0]
    words, _ = node.started("--address=h:1", "--object-store-memory", "5")
    assert [word for word in words if "object-store" in word] == ["--object-store-memory"]


def test_sites_are_resources(node: Node) -> None:
    words, _ = node.started("--address=h:1", RAYMIRROR_SITE="eu-west-1,room_2")
    assert resources(words) == {"raymirror_site_eu-west-1": 1, "raymirror_site_room_2": 1}
    node.java("21.0.4")
    words, _ = node.started("--address=h:1", RAYMIRROR_SITE="eu-west-1")
    assert resources(words) == {"raymirror_java": 1, "raymirror_site_eu-west-1": 1}


@pytest.mark.parametrize("site", ["-x", 'a"b', "a b", ",", "a" * 64])
def test_a_site_that_cannot_be_named_in_a_configuration_is_refused(node: Node, site: str) -> None:
    done = node.start("--address=h:1", RAYMIRROR_SITE=site)
    assert done.returncode == 2
    assert "is not the name of a site" in done.stderr


@pytest.mark.parametrize("words", [("--resources", "{}"), ("--resources={}",)])
def test_resources_of_the_caller_are_refused(node: Node, words: tuple[str, ...]) -> None:
    done = node.start("--address=h:1", *words)
    assert done.returncode == 2
    assert "RAY_OVERRIDE_RESOURCES" in done.stderr


def test_a_machine_without_ray_is_told_where_it_is(node: Node) -> None:
    (node.bin / "ray").unlink()
    done = node.start("--head")
    assert done.returncode == 2
    assert "no ray on PATH" in done.stderr
