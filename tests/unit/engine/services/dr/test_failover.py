"""A failover whose target does not answer."""

import pytest

from engine.base.errors import ClusterAway, ClusterRefuses
from engine.config.config import read_config
from engine.config.file.properties import parse_properties
from engine.kafka.client.cluster import ClusterClient
from engine.services.dr.failover import Failover, TargetAway
from tests.unit.engine.config_files import BASE


@pytest.mark.parametrize(("raised", "expected"), [(ClusterAway, TargetAway), (ClusterRefuses, ClusterRefuses)])
async def test_it_says_that_the_target_is_missing_if_no_broker_answers(
    raised: type[ClusterAway], expected: type[ClusterAway], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = read_config(parse_properties(BASE, "f"))

    async def away(self: ClusterClient) -> None:
        raise raised("f:3", self.alias, "b:1: refused")

    monkeypatch.setattr(ClusterClient, "open", away)
    with pytest.raises(ClusterAway) as caught:
        async with Failover(config, config.flows[0]):
            pass
    assert type(caught.value) is expected
    assert str(caught.value).startswith("f:3: no broker of cluster 'B' ")
    assert ("it is the target of the flow" in str(caught.value)) is (expected is TargetAway)
