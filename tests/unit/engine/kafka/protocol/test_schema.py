"""The notation of schemas, and which version of a request a broker gets."""

import pytest
from aiokafka.protocol.types import CompactArray, CompactString

from engine.kafka.protocol import requests
from engine.kafka.protocol.schema import Question, api

ROWS = "a:int16 rows[name:text ids:int32[]] one{flag:bool}"


def test_a_classic_version() -> None:
    struct = api(1, 2, ROWS, "code:int16", flexible=False)
    wanted = b"\0\5" + b"\0\0\0\1" + b"\0\1x" + b"\0\0\0\2\0\0\0\7\0\0\0\x08" + b"\1"
    assert struct(5, [("x", [7, 8])], (True,)).encode() == wanted
    assert struct.RESPONSE_TYPE.decode(b"\0\3").code == 3


def test_a_flexible_version_ends_every_struct_with_tags() -> None:
    struct = api(1, 2, ROWS, "code:int16")
    wanted = b"\0\5" + b"\2" + b"\2x" + b"\3\0\0\0\7\0\0\0\x08" + b"\0" + b"\1\0" + b"\0"
    assert struct(5, [("x", [7, 8], {})], (True, {}), {}).encode() == wanted
    assert struct.RESPONSE_TYPE.decode(b"\0\3\0").tags == {}


def test_none_stands_for_no_array_and_no_text() -> None:
    struct = api(1, 2, "names:text[] name:text", "code:int16")
    assert struct(None, None, {}).encode() == b"\0\0\0"


def test_nested_shapes_are_aiokafkas_own() -> None:
    (_, rows, _, _) = api(1, 2, ROWS, "code:int16").SCHEMA.fields
    assert isinstance(rows, CompactArray)
    assert isinstance(rows.array_of.fields[0], CompactString)


class Speaker:
    def __init__(self, newest: int) -> None:
        self.newest = newest

    def supports(self, api_key: int, version: int) -> bool:
        return api_key == requests.ListGroups.API_KEY and version <= self.newest


@pytest.mark.parametrize(("newest", "sent"), [(0, 0), (4, 4), (9, 5)])
def test_the_newest_version_that_both_know(newest: int, sent: int) -> None:
    built = requests.ListGroups().prepare({16: (0, newest)})
    assert sent == built.API_VERSION
    assert built.encode() == {4: b"\1\0", 5: b"\1\1\0"}.get(sent, b"")
    assert requests.ListGroups.spoken_by(Speaker(newest))


def test_a_broker_that_speaks_none() -> None:
    assert not requests.FindCoordinators.spoken_by(Speaker(9))


def test_every_request_knows_its_versions() -> None:
    kinds = Question.__subclasses__()
    assert {kind.__name__ for kind in kinds} >= {"MetadataWithIds", "CommitOffsets", "ConsumerGroupDescribe"}
    assert all(one.API_KEY == kind.API_KEY for kind in kinds for one in kind._CLASSES)
