"""Rounds of discovery: what is asked of each part."""

from types import SimpleNamespace
from typing import cast

import pytest

from engine.core.events.events import AnyEvent
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.discovery.topics import Topics
from tests.unit.engine.config_files import flow
from tests.unit.engine.kafka.discovery.test_copies import metadata


async def test_a_copy_that_producers_have_moved_to_is_not_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their topic on the source may be made anew when nobody uses it; with names kept, the copy has all records."""
    checked: list[list[str]] = []

    async def check(copies: dict[str, str], *_words: object, may_delete: bool) -> list[AnyEvent]:
        assert may_delete
        checked.append(sorted(copies))
        return []

    source, target = (cast("ClusterClient", SimpleNamespace(alias=alias)) for alias in "AB")
    topics = Topics(flow(), source, target)
    topics.may_delete = lambda: True
    monkeypatch.setattr(topics._renewals, "check", check)
    for moved in ((), ("s",)):
        topics.moved = lambda moved=moved: moved  # type: ignore[misc]
        await topics._check_renewals(["s", "t"], metadata(), metadata())
    assert checked == [["s", "t"], ["t"]]
