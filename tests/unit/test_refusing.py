"""The proxy that refuses requests: what it leaves of a broker's answers."""

import struct
from io import BytesIO
from types import SimpleNamespace
from typing import Any, cast

from aiokafka.protocol.admin import ApiVersionResponse_v0

from deploy.local.cluster import EmbeddedCluster
from engine.kafka.protocol.requests import METADATA_7, METADATA_12
from tests.harness import refusing
from tests.harness.refusing import RefusingProxy, Rules, no_transactional_id, without

CLUSTER = cast("EmbeddedCluster", SimpleNamespace(brokers=[SimpleNamespace(port=9)]))


def proxy(rules: Rules) -> RefusingProxy:
    made = RefusingProxy(CLUSTER, rules)
    made._ports = {9: 99}
    return made


def test_what_is_not_offered_is_not_in_the_list() -> None:
    rules = Rules(frozenset({24}), {1: 11, 3: 2})
    frame = b"\0\0\0\7" + ApiVersionResponse_v0(0, [(1, 4, 17), (3, 3, 13), (24, 0, 5), (26, 0, 5)]).encode()
    answer = proxy(rules)._changed(18, 0, frame)
    assert answer[:4] == frame[:4]
    assert ApiVersionResponse_v0.decode(answer[4:]).api_versions == [(1, 4, 11), (26, 0, 5)]
    assert [rules.offers(*one) for one in ((24, 0), (1, 11), (1, 12), (26, 3))] == [False, True, False, True]


def test_metadata_names_the_proxys_ports() -> None:
    kinds: list[tuple[Any, list[Any]]] = [(METADATA_7, []), (METADATA_12, [{}])]
    for api, tags in kinds:
        kind: Any = api.RESPONSE_TYPE
        head = b"\0\0\0\7" + (b"\0" if tags else b"")
        body = kind.SCHEMA.encode((0, [(1, "127.0.0.1", 9, None, *tags)], "id", 1, [], *tags))
        answer = proxy(without())._changed(refusing.METADATA, api.API_VERSION, head + body)
        assert answer.startswith(head)
        assert kind.SCHEMA.decode(BytesIO(answer[len(head) :]))[1] == [(1, "127.0.0.1", 99, None, *tags)]


def test_only_ids_of_transactions_are_refused() -> None:
    assert no_transactional_id(b"\xff\xff" + b"\0\0\0\1") is None
    assert no_transactional_id(b"\0\1x" + b"\0\0\0\1") == struct.pack(">ihqh", 0, 35, -1, -1)
    made = proxy(Rules(answers={22: no_transactional_id}))
    head = struct.pack(">hhih", 22, 0, 5, 2) + b"me"
    assert made._own_answer(22, head + b"\xff\xff\0\0\0\1") is None
    assert made._own_answer(22, head + b"\0\1x\0\0\0\1") is not None
    assert made._own_answer(1, head) is None
