"""What the steps of a switchover and of a move ask of brokers belongs to rows of the rights of these commands."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import engine
from policies.grants.feature_use import GrantFeature
from policies.grants.features import USES
from policies.grants.resources import GrantSide
from policies.grants.rights import ResourceKind
from tests.unit.engine.flow.failback.test_failback_rights import CLUSTER, GROUPS, SETTINGS, Sent, granted

ROOT = Path(engine.__file__).parent / "services" / "dr"
SHARED = ("switchover/world.py", "switchover/steps.py", "switchover/group_starts.py", "switchover/reversal.py")
PORTS = {
    "source_settings": (GrantSide.SOURCE, SETTINGS),
    "target_settings": (GrantSide.TARGET, SETTINGS),
    "source_groups": (GrantSide.SOURCE, GROUPS),
    "target_groups": (GrantSide.TARGET, GROUPS),
    "source": (GrantSide.SOURCE, CLUSTER),
    "target": (GrantSide.TARGET, CLUSTER),
}


def sent(*modules: str) -> set[Sent]:
    """Return what modules ask of the ports of a world, by the names of their methods."""
    return {one for name in modules for one in _asked(ast.parse((ROOT / name).read_text()))}


def _asked(tree: ast.Module) -> Iterator[Sent]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute):
            side, asks = PORTS.get(node.value.attr, (None, {}))
            if side is not None and node.attr in asks:
                yield side, *asks[node.attr]


@pytest.mark.parametrize(
    ("feature", "modules"),
    [
        (GrantFeature.SWITCHOVER, SHARED),
        (GrantFeature.MOVE, (*SHARED, "moves/steps.py", "moves/survey.py", "moves/back.py", "moving.py")),
    ],
)
def test_every_request_has_a_row(feature: GrantFeature, modules: tuple[str, ...]) -> None:
    found = sent(*modules)
    assert (GrantSide.TARGET, "OffsetCommit", ResourceKind.GROUP) in found
    assert found - granted(feature) == set()


@pytest.mark.parametrize("feature", [GrantFeature.SWITCHOVER, GrantFeature.MOVE, GrantFeature.DR_FAILBACK])
def test_an_operation_is_stored_and_fenced_on_both_clusters(feature: GrantFeature) -> None:
    rights = granted(feature)
    for side in (GrantSide.SOURCE, GrantSide.TARGET):
        for request in ("DescribeAcls", "CreateAcls", "DeleteAcls"):
            assert (side, request, ResourceKind.CLUSTER) in rights
        assert (side, "Produce", ResourceKind.TOPIC) in rights
        assert (side, "InitProducerId", ResourceKind.TRANSACTIONAL_ID) in rights


def test_topics_made_anew_are_deleted_and_created_on_the_source() -> None:
    found = {(use.side, request) for use in USES if use.feature is GrantFeature.MAKE_ANEW for request in use.requests}
    assert found == {(GrantSide.SOURCE, "DeleteTopics"), (GrantSide.SOURCE, "CreateTopics")}
