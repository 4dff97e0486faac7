"""MM2's integration tests each have a line in `docs/mm2-tests.md`: existing raymirror tests, or why there is none."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "mm2-tests.md"

_BASE, _ADMIN = "MirrorConnectorsIntegrationBaseTest", "MirrorConnectorsWithCustomForwardingAdminIntegrationTest"
CATALOGUE = (
    *(
        f"{_BASE}.test{name}"
        for name in (
            "Replication",
            "ReplicationWithEmptyPartition",
            "OneWayReplicationWithAutoOffsetSync",
            "OneWayReplicationWithFrequentOffsetSyncs",
            "ReplicationWithoutOffsetSyncWillNotCreateOffsetSyncsTopic",
            "OffsetSyncsTopicsOnTarget",
            "NoCheckpointsIfNoRecordsAreMirrored",
            "RestartReplication",
            "OffsetTranslationBehindReplicationFlow",
            "SyncTopicConfigs",
            "ReplicateSourceDefault",
            "ReplicateTargetDefault",
            "ReplicateFromLatest",
        )
    ),
    # The thirteen again, under other conditions.
    "IdentityReplicationIntegrationTest",
    "MirrorConnectorsIntegrationExactlyOnceTest",
    "MirrorConnectorsIntegrationSSLTest",
    "MirrorConnectorsIntegrationTransactionsTest",
    "MirrorConnectorsIntegrationExactlyOnceTest.testReplication",
    f"{_ADMIN}.testReplicationIsCreatingTopicsUsingProvidedForwardingAdmin",
    f"{_ADMIN}.testCreatePartitionsUseProvidedForwardingAdmin",
    f"{_ADMIN}.testSyncTopicConfigUseProvidedForwardingAdmin",
    f"{_ADMIN}.testSyncTopicACLsUseProvidedForwardingAdmin",
    "DedicatedMirrorIntegrationTest.testSingleNodeCluster",
    "DedicatedMirrorIntegrationTest.testClusterWithEmitOffsetDisabled",
    "DedicatedMirrorIntegrationTest.testMultiNodeCluster",
)
"""Every one that the public repository had at 4.0."""


def rows() -> list[tuple[str, str]]:
    """Read the page's table: MM2's test, and what stands in its last column."""
    cells = (line.strip("|").split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| `"))
    return [(cell[0].split("`")[1], cell[2]) for cell in cells]


def ours_in(file: str) -> set[str]:
    tree = ast.parse((ROOT / file).read_text())
    functions = (node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return {node.name for node in functions if node.name.startswith("test_")}


def nodes_of(answer: str) -> list[str]:
    return [quoted for quoted in re.findall(r"`([^`]+)`", answer) if quoted.startswith("tests/")]


def test_every_test_of_mm2s_has_its_line_and_no_other_has() -> None:
    assert sorted(name for name, _ in rows()) == sorted(CATALOGUE)


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_line_names_tests_that_are_there_or_says_why_not(name: str) -> None:
    answer = dict(rows())[name]
    for node in nodes_of(answer):
        file, _, test = node.partition("::")
        assert test in ours_in(file), f"{node} is not there"
    words = re.sub(r"`[^`]+`", "", answer).split()
    assert nodes_of(answer) or len(words) > 10, "neither a test nor a reason"


def test_nothing_is_still_to_come() -> None:
    assert not [name for name, answer in rows() if "to come" in answer]
