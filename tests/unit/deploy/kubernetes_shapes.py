"""The keys that raymirror's Kubernetes files use, with their types, so that a typo is found.

For RayCluster and RayJob from the CRDs of KubeRay 1.7.0 (ray-operator/config/crd/bases), for the rest from the
Kubernetes API v1. Only the used keys are here, so a key that is new in a file must be looked up and added. Checks of
the operator beyond the schema (feature gates, rules between fields) have their own tests.
"""

from typing import Any

Shape = Any
"""A type, a tuple of allowed values, a dict of keys (`!` behind a key: required), a list of one shape, or a MapOf."""

KUBERAY = "1.7.0"
QUANTITY = (int, str)


class MapOf:
    """Any keys, one shape of values."""

    def __init__(self, values: Shape) -> None:
        self.values = values


TEXTS = MapOf(str)
PORT = {"name": str, "containerPort!": int}
CONTAINER = {
    "name!": str,
    "image": str,
    "env": [{"name!": str, "value": str}],
    "lifecycle": {"preStop": {"exec": {"command": [str]}}},
    "ports": [PORT],
    "resources": {"requests": MapOf(QUANTITY), "limits": MapOf(QUANTITY)},
    "securityContext": {"allowPrivilegeEscalation": bool, "capabilities": {"drop": [str]}},
    "volumeMounts": [{"name!": str, "mountPath!": str, "readOnly": bool}],
}
VOLUME = {
    "name!": str,
    "configMap": {"name": str},
    "secret": {"secretName": str, "defaultMode": int},
    "emptyDir": {"medium": str, "sizeLimit": QUANTITY},
}
POD = {
    "terminationGracePeriodSeconds": int,
    "shareProcessNamespace": bool,
    "securityContext": {
        "runAsNonRoot": bool,
        "runAsUser": int,
        "runAsGroup": int,
        "fsGroup": int,
        "seccompProfile": {"type!": ("RuntimeDefault", "Localhost", "Unconfined")},
    },
    "containers!": [CONTAINER],
    "volumes": [VOLUME],
}
GROUP = {"rayStartParams": TEXTS, "resources": TEXTS, "template!": {"spec": POD}}
METADATA = {"name!": str, "labels": TEXTS}

RAY_CLUSTER = {
    "rayVersion": str,
    "authOptions": {"mode": ("disabled", "token")},
    "gcsFaultToleranceOptions": {"backend": ("redis", "rocksdb"), "storage": {"size": QUANTITY}},
    "enableInTreeAutoscaling": bool,
    "autoscalerOptions": {
        "version": ("v1", "v2"),
        "upscalingMode": ("Default", "Aggressive", "Conservative"),
        "idleTimeoutSeconds": int,
    },
    "headGroupSpec!": GROUP,
    "workerGroupSpecs": [
        {**GROUP, "groupName!": str, "replicas": int, "minReplicas!": int, "maxReplicas!": int},
    ],
}
RAY_JOB = {"clusterSelector": TEXTS, "submissionMode": str, "entrypoint": str, "runtimeEnvYAML": str}
SERVICE_PORT = {"name": str, "port!": int, "targetPort": QUANTITY}


def _file(version: str, kind: str, **body: Shape) -> Shape:
    return {"apiVersion!": (version,), "kind!": (kind,), "metadata!": METADATA, **body}


FILES: dict[str, Shape] = {
    "RayCluster": _file("ray.io/v1", "RayCluster", spec=RAY_CLUSTER),
    "RayJob": _file("ray.io/v1", "RayJob", spec=RAY_JOB),
    "PodDisruptionBudget": _file(
        "policy/v1",
        "PodDisruptionBudget",
        spec={"maxUnavailable": QUANTITY, "selector": {"matchLabels": TEXTS}},
    ),
    "Service": _file(
        "v1", "Service", spec={"selector": TEXTS, "publishNotReadyAddresses": bool, "ports": [SERVICE_PORT]}
    ),
    "ConfigMap": _file("v1", "ConfigMap", data=TEXTS),
    "Secret": _file("v1", "Secret", type=str, stringData=TEXTS),
}

_NAMES = {str: "string", int: "integer", bool: "boolean"}


def schema_of(shape: Shape) -> dict[str, Any]:
    """Turn a shape into a JSON schema that refuses every other key."""
    if isinstance(shape, MapOf):
        return {"type": "object", "additionalProperties": schema_of(shape.values)}
    if isinstance(shape, dict):
        return {
            "type": "object",
            "properties": {key.removesuffix("!"): schema_of(value) for key, value in shape.items()},
            "required": [key[:-1] for key in shape if key.endswith("!")],
            "additionalProperties": False,
        }
    if isinstance(shape, list):
        return {"type": "array", "items": schema_of(shape[0])}
    if isinstance(shape, tuple):
        return {"type": [_NAMES[one] for one in shape]} if shape == QUANTITY else {"enum": list(shape)}
    return {"type": _NAMES[shape]}
