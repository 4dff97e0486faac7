"""A flow between the shared clusters."""

import re

import pytest

from tests.conftest import Pair
from tests.harness.mirror import Mirror


@pytest.fixture
async def mirror(request: pytest.FixtureRequest, cluster_pair: Pair) -> Mirror:
    """A flow of the test's own between the shared clusters; its source alias and topics carry the test's name."""
    alias = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_")).strip("-")
    made = Mirror(cluster_pair.source, cluster_pair.target, alias)
    await made.open()
    return made
