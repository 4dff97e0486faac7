"""The table of requests has every request that the code can send, and no other; every one belongs to a feature."""

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import actors
import engine
from engine.kafka.protocol import requests as own_requests
from engine.kafka.protocol.schema import Question
from policies.grants.feature_use import FeatureUse
from policies.grants.features import USES
from policies.grants.requests import BY_KEY, BY_NAME, REQUESTS

API_VERSIONS = 18
"""AIOKafkaConnection sends it by itself, in its handshake."""
RAW = {
    "engine/kafka/admin/admin.py",
    "engine/kafka/admin/settings.py",
    "engine/kafka/admin/topic_shapes.py",
    "engine/kafka/client/metadata.py",
    "engine/kafka/data/source.py",
    "engine/kafka/data/target.py",
    "engine/kafka/groups/groups.py",
}
"""Modules that encode requests themselves; `raw_keys` finds their API keys."""
HTTP = {"engine/security/oauth/endpoint.py", "actors/remote/http_mirror.py"}
"""Modules whose connections speak HTTP."""


def modules() -> Iterator[tuple[str, ast.Module]]:
    """Yield every module that may ask a broker; the demo plays the part of applications."""
    for package in (engine, actors):
        root = Path(package.__file__ or "").parent
        for path in sorted(root.rglob("*.py")):
            name = str(path.relative_to(root.parent))
            if not name.startswith("actors/demo/"):
                yield name, ast.parse(path.read_text())


def library_keys() -> set[int]:
    """Return the API keys of aiokafka's request classes that are imported anywhere."""
    found: set[object] = set()
    for _, tree in modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("aiokafka.protocol."):
                library = importlib.import_module(node.module or "")
                found |= {getattr(getattr(library, one.name), "API_KEY", None) for one in node.names}
    return {key for key in found if isinstance(key, int)}


def own_keys() -> set[int]:
    """Return the API keys of raymirror's own request classes."""
    return {
        one.API_KEY
        for one in vars(own_requests).values()
        if isinstance(one, type) and issubclass(one, Question) and one is not Question
    }


def raw_keys() -> set[int]:
    """Return the first numbers of constants such as `DESCRIBE_ACLS = (29, 1)`, and `FETCH_KEY = 1`."""
    found: set[int] = set()
    for name in (
        "protocol.codec",
        "protocol.admin_codec",
        "protocol.metadata_codec",
        "admin.topic_shapes",
        "admin.client_quotas",
    ):
        module = importlib.import_module(f"engine.kafka.{name}")
        for constant, value in vars(module).items():
            if constant.endswith("_KEY") and isinstance(value, int):
                found.add(value)
            is_request = constant.isupper() and not constant.endswith("_VERSIONS")
            if is_request and isinstance(value, tuple) and list(map(type, value)) == [int, int]:
                found.add(value[0])
    return found


def test_every_request_in_the_code_is_in_the_table_and_no_other() -> None:
    sent = library_keys() | own_keys() | raw_keys() | {API_VERSIONS}
    assert len(library_keys()) > 10
    assert len(own_keys()) > 10
    assert sent == BY_KEY.keys()


def test_only_these_modules_encode_requests_themselves() -> None:
    found = set()
    for name, tree in modules():
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in ("request", "send", "ask")
            ):
                owner = ast.unparse(node.func.value)
                if owner.endswith("connection") and name not in HTTP:
                    found.add(name)
    assert found == RAW


def test_every_request_that_needs_a_right_belongs_to_a_feature() -> None:
    used = {name for use in USES for name in use.requests}
    assert used == {one.name for one in REQUESTS if one.needs}


@pytest.mark.parametrize("use", USES, ids=lambda use: f"{use.feature.name} {use.side.value} {use.group.name}")
def test_a_row_of_a_feature_needs_some_right_on_its_resources(use: FeatureUse) -> None:
    kind = use.group.kind
    for name in use.requests:
        assert BY_NAME[name].on(kind), f"{name} needs nothing on a {kind.value}"
    assert use.without


def test_names_and_keys_are_unique() -> None:
    assert len(BY_NAME) == len(BY_KEY) == len(REQUESTS)
