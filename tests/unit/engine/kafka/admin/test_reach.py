"""A source that may be unreachable."""

import asyncio
from typing import cast

import pytest

from engine.base.errors import BrokerUnreachable, ConnectionLost, OtherCluster, SameCluster
from engine.kafka.admin import reach
from engine.kafka.admin.reach import open_known_source, open_source
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.client.metadata import BrokerAddress, Metadata
from tests.unit.engine.config_files import flow


class Source:
    """A client that connects, or fails, or never answers; `told` is what it answers then, of brokers on a host."""

    def __init__(self, failure: Exception | None = None, *, mute: bool = False, told: str | Exception = "one") -> None:
        self.failure, self.mute, self.told = failure, mute, told

    async def metadata(self, _topics: None) -> Metadata:
        if isinstance(self.told, Exception):
            raise self.told
        return Metadata("", 1, {1: BrokerAddress(self.told, 9092, "")}, {})

    async def open(self) -> None:
        if self.mute:
            await asyncio.Event().wait()
        if self.failure is not None:
            raise self.failure


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (Source(), ""),
        (Source(BrokerUnreachable("a:1", "refused")), "a:1: cannot connect: refused"),
        (Source(mute=True), "no answer within 0 s"),
    ],
)
async def test_why_a_source_cannot_be_asked(source: Source, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "SOURCE_WITHIN_S", 0.01)
    assert await open_source(cast("ClusterClient", source)) == why


async def known(source: Source, target: Source, extra: str = "") -> str:
    return await open_known_source(flow(extra), cast("ClusterClient", source), cast("ClusterClient", target))


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch) -> list[OtherCluster]:
    """What the stored positions refuse."""
    refused: list[OtherCluster] = []

    async def check(*_: object) -> bool:
        for other in refused:
            raise other
        return True

    monkeypatch.setattr(reach, "check_clusters", check)
    return refused


async def test_a_source_that_is_the_target_is_refused_unless_it_is_meant(stored: list[OtherCluster]) -> None:
    assert await known(Source(), Source(told="two")) == ""
    with pytest.raises(SameCluster, match="'A' and 'B' lead to one cluster"):
        await known(Source(), Source())
    assert await known(Source(), Source(), "A->B.raymirror.same.cluster = allow\n") == ""
    stored.append(OtherCluster("a:1", "x", "y", "z"))
    assert (await known(Source(), Source())).startswith("a:1: this is cluster x"), "that one is not asked at all"


@pytest.mark.usefixtures("stored")
async def test_a_source_that_goes_away_under_the_comparison_is_gone() -> None:
    assert await known(Source(told=ConnectionLost("a:1")), Source(told="two")) == "connection lost: a:1"
    assert "refused" in await known(Source(BrokerUnreachable("a:1", "refused")), Source(told="two"))
    with pytest.raises(ConnectionLost):
        await known(Source(), Source(told=ConnectionLost("b:1")))
