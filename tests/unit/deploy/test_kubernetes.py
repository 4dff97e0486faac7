"""The files of deploy/kubernetes: their shape, the names in them, and how Ray's autoscaler reads them."""

import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from engine.config.config import load_config
from engine.config.secrets import handshake_options
from engine.security.sasl.scram import ScramLogin
from tests.unit.deploy.kubernetes_shapes import FILES, schema_of

CLONE = Path(__file__).parents[3]
FOLDER = CLONE / "deploy" / "kubernetes"
DOCUMENTS = [document for path in sorted(FOLDER.glob("*.yaml")) for document in yaml.safe_load_all(path.read_text())]


def the(kind: str) -> Any:
    (found,) = (document for document in DOCUMENTS if document["kind"] == kind)
    return found


def groups() -> list[Any]:
    spec = the("RayCluster")["spec"]
    return [spec["headGroupSpec"], *spec["workerGroupSpecs"]]


def pods() -> list[Any]:
    return [group["template"]["spec"] for group in groups()]


def container(pod: Any) -> Any:
    (only,) = pod["containers"]
    return only


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document["kind"])
def test_every_key_is_one_of_its_kind(document: Any) -> None:
    jsonschema.validate(document, schema_of(FILES[document["kind"]]))


def test_a_typo_would_be_seen() -> None:
    document = copy.deepcopy(the("RayCluster"))
    document["spec"]["workerGroupSpecs"][0]["maxReplica"] = 3
    with pytest.raises(jsonschema.ValidationError, match="maxReplica"):
        jsonschema.validate(document, schema_of(FILES["RayCluster"]))


@pytest.mark.local
def test_rays_autoscaler_reads_the_cluster(tmp_path: Path) -> None:
    document = the("RayCluster")
    document = {**document, "metadata": {**document["metadata"], "namespace": "n"}}
    # In a process of its own: Ray changes the warnings and logging of the one that imports it.
    code = (
        "import json, sys; from ray.autoscaler._private.kuberay import autoscaling_config as a;"
        "print(json.dumps(a._derive_autoscaling_config_from_ray_cr(json.load(sys.stdin))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps(document),
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    read = json.loads(done.stdout)
    head, copiers = read["available_node_types"]["headgroup"], read["available_node_types"]["copiers"]
    assert head["resources"]["CPU"] == 0
    assert head["resources"]["raymirror_java"] == copiers["resources"]["raymirror_java"] == 1
    assert (copiers["min_workers"], copiers["max_workers"], copiers["resources"]["CPU"]) == (1, 8, 4)
    assert read["idle_timeout_minutes"] == 5


def test_every_pod_drains_before_it_goes_and_has_the_time() -> None:
    for pod in pods():
        command = container(pod)["lifecycle"]["preStop"]["exec"]["command"]
        assert command == ["raymirror", "drain", "--node", "this", "--timeout", "50"]
        assert pod["terminationGracePeriodSeconds"] >= int(command[-1]) + 20


def test_ray_demands_a_token_and_keeps_its_control_store() -> None:
    spec = the("RayCluster")["spec"]
    assert spec["authOptions"] == {"mode": "token"}
    assert spec["gcsFaultToleranceOptions"]["backend"] == "rocksdb"
    # The operator sets these itself, and refuses a cluster that has them.
    names = {entry["name"] for pod in pods() for entry in container(pod)["env"]}
    assert not names & {"RAY_gcs_storage", "RAY_gcs_storage_path", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN"}


def test_no_cpu_is_promised_that_the_pod_has_not() -> None:
    for group in groups():
        limits = container(group["template"]["spec"])["resources"]["limits"]
        assert int(group["resources"]["CPU"]) in (0, int(limits["cpu"]))


def test_the_object_store_fits_into_shared_memory() -> None:
    for group in groups():
        (shm,) = (volume for volume in group["template"]["spec"]["volumes"] if volume["name"] == "shm")
        assert shm["emptyDir"] == {"medium": "Memory", "sizeLimit": "512Mi"}
        assert int(group["rayStartParams"]["object-store-memory"]) < 512 * 1024 * 1024


def test_what_is_mounted_is_defined_and_on_every_pod() -> None:
    defined = {the("ConfigMap")["metadata"]["name"], the("Secret")["metadata"]["name"]}
    for pod in pods():
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        assert {mount["name"] for mount in container(pod)["volumeMounts"]} == set(volumes)
        assert {volumes["config"]["configMap"]["name"], volumes["secrets"]["secret"]["secretName"]} == defined


def test_selectors_and_job_name_the_cluster() -> None:
    name = the("RayCluster")["metadata"]["name"]
    assert the("RayJob")["spec"]["clusterSelector"] == {"ray.io/cluster": name}
    assert the("Service")["spec"]["selector"]["ray.io/cluster"] == name
    assert the("PodDisruptionBudget")["spec"]["selector"]["matchLabels"]["ray.io/cluster"] == name


def test_the_job_names_the_mounted_file() -> None:
    (mount,) = (mount for mount in container(pods()[0])["volumeMounts"] if mount["name"] == "config")
    (file,) = the("ConfigMap")["data"]
    assert the("RayJob")["spec"]["entrypoint"].split()[-1] == f"{mount['mountPath']}/{file}"


def test_the_example_configuration_is_one(tmp_path: Path) -> None:
    (secret_mount,) = (mount for mount in container(pods()[0])["volumeMounts"] if mount["name"] == "secrets")
    (secret_file,) = the("Secret")["stringData"]
    text = the("ConfigMap")["data"]["mm2.properties"]
    assert f"{secret_mount['mountPath']}/{secret_file}" in text
    secrets = tmp_path / secret_file
    secrets.write_text(the("Secret")["stringData"][secret_file])
    path = tmp_path / "mm2.properties"
    path.write_text(text.replace(f"{secret_mount['mountPath']}/{secret_file}", str(secrets)))
    config = load_config(path)
    assert config.warnings == ()
    for cluster in config.clusters.values():
        options = handshake_options(cluster, "test")
        login = options.credentials().login
        assert isinstance(login, ScramLogin)
        assert (login.user, login._password, options.sasl_mechanism) == ("mirror", "fill-in", "SCRAM-SHA-512")
    assert config.deployment_id == "raymirror-kubernetes"
    assert (config.telemetry.port, config.telemetry.bind) == (9464, "0.0.0.0")


def test_the_metrics_port_is_the_same_everywhere() -> None:
    (port,) = the("Service")["spec"]["ports"]
    ports = {entry["name"]: entry["containerPort"] for entry in container(pods()[0])["ports"]}
    assert ports[port["targetPort"]] == port["port"]
    assert f"raymirror.metrics.port = {port['port']}\n" in the("ConfigMap")["data"]["mm2.properties"]
