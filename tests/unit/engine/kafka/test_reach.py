"""A source that may be gone."""

import asyncio
from typing import cast

import pytest

from engine.errors import BrokerUnreachable
from engine.kafka import reach
from engine.kafka.cluster import ClusterClient
from engine.kafka.reach import open_source


class Source:
    """A client that connects, or fails, or never answers."""

    def __init__(self, failure: Exception | None = None, *, mute: bool = False) -> None:
        self.failure, self.mute = failure, mute

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
