"""Topics that a broker leaves out of its list: hidden for lack of a right, or not there."""

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from engine.kafka.admin.hidden_topics import hidden_topics
from engine.kafka.client.metadata import Metadata, TopicMeta
from policies.grants.rights import Grantee

_NO_ID = UUID(int=0)


def metadata(**codes: int) -> Metadata:
    """Describe topics by name, each with its error code."""
    return Metadata("id", 1, {}, {name: TopicMeta(code, _NO_ID, False, {}) for name, code in codes.items()})


class Client(SimpleNamespace):
    """A cluster that answers about named topics with error codes."""

    alias = "A"
    grantee = Grantee("A", "mirror")

    def __init__(self, **codes: int) -> None:
        super().__init__(codes=codes, asked=[])

    async def metadata(self, topics: list[str]) -> Metadata:
        self.asked.append(topics)
        return metadata(**{topic: self.codes[topic] for topic in topics})


@pytest.mark.parametrize("code", [29, 3])
async def test_a_topic_that_may_not_be_described_is_told_from_one_that_does_not_exist(code: int) -> None:
    client: Any = Client(b=code)
    found = await hidden_topics(client, ["a", "b"], metadata(a=0))
    assert client.asked == [["b"]]
    texts = {topic: str(refusal) for topic, refusal in found.items()}
    if code == 3:
        assert texts == {}
    else:
        right = "grant Read on topic b on cluster 'A' to User:mirror"
        assert texts == {"b": f"topic b on cluster 'A': TopicAuthorizationFailed (29); {right}"}


async def test_nothing_is_asked_if_nothing_is_missing() -> None:
    client: Any = Client()
    assert await hidden_topics(client, ["a"], metadata(a=0)) == {}
    assert client.asked == []
