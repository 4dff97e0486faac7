"""Topics that are deleted by their ids: bytes on the wire, and answers."""

from typing import Any, cast
from uuid import UUID

import pytest

from engine.base.errors import KafkaRefusal
from engine.kafka.admin.admin import delete_topic_by_id
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.client.throttle import Throttle
from engine.kafka.protocol.requests import DELETE_TOPICS_6, DeleteTopicById

ID = UUID(int=7)


class Controller:
    """Answers with one code, and keeps what it was asked."""

    alias = "A"

    def __init__(self, code: int) -> None:
        self._code, self.asked = code, b""
        self.tuning = self
        self.api_s = self.answer_s = 1.0
        self.changes = Throttle()

    async def controller(self) -> "Controller":
        return self

    async def call(self, request: DeleteTopicById, _timeout_s: float) -> Any:
        self.asked = request.build(DELETE_TOPICS_6).encode()
        answer = DELETE_TOPICS_6.RESPONSE_TYPE
        return answer.decode(answer.SCHEMA.encode((0, [(None, ID, self._code, None, {})], {})))


@pytest.mark.parametrize("code", [0, 3, 100])
async def test_a_topic_is_named_by_its_id_alone_and_one_that_is_gone_is_no_error(code: int) -> None:
    controller = Controller(code)
    await delete_topic_by_id(cast("ClusterClient", controller), "t", ID)
    assert controller.asked == b"\x02\x00" + ID.bytes + b"\x00" + (1000).to_bytes(4, "big") + b"\x00"


async def test_a_cluster_that_deletes_no_topics_says_so() -> None:
    with pytest.raises(KafkaRefusal, match=r"deleting topic t \(00000000-.*-000000000007\) on cluster 'A'"):
        await delete_topic_by_id(cast("ClusterClient", Controller(73)), "t", ID)
