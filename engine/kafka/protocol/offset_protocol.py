"""ListOffsets with leader epochs, which aiokafka lacks (Kafka protocol guide, ListOffsets v4)."""

from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import Array, Int8, Int16, Int32, Int64, Schema, String

_TEXT = String("utf-8")
_CLIENT = -1
_READ_UNCOMMITTED, _READ_COMMITTED = 0, 1


class ListOffsetsResponse_v4(Response):
    API_KEY = 2
    API_VERSION = 4
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "topics",
            Array(
                ("name", _TEXT),
                (
                    "partitions",
                    Array(
                        ("partition", Int32),
                        ("error_code", Int16),
                        ("timestamp", Int64),
                        ("offset", Int64),
                        ("leader_epoch", Int32),
                    ),
                ),
            ),
        ),
    )


class ListOffsetsRequest_v4(RequestStruct):
    API_KEY = 2
    API_VERSION = 4
    RESPONSE_TYPE = ListOffsetsResponse_v4
    SCHEMA = Schema(
        ("replica_id", Int32),
        ("isolation_level", Int8),
        (
            "topics",
            Array(
                ("name", _TEXT),
                ("partitions", Array(("partition", Int32), ("current_leader_epoch", Int32), ("timestamp", Int64))),
            ),
        ),
    )


class ListOffsetsWithEpochs(Request[ListOffsetsRequest_v4]):
    """Offsets at timestamps (v4, brokers from 2.1 on): a leader of another epoch than ours refuses (KIP-320).

    `topics` has (name, [(partition, current leader epoch, timestamp)]). `committed`: the end is the last stable offset.
    """

    API_KEY = 2

    def __init__(self, topics: list[tuple[str, list[tuple[int, int, int]]]], *, committed: bool = False) -> None:
        self._topics = topics
        self._isolation = _READ_COMMITTED if committed else _READ_UNCOMMITTED

    def build(self, request_struct_class: type[ListOffsetsRequest_v4]) -> ListOffsetsRequest_v4:
        return request_struct_class(_CLIENT, self._isolation, self._topics)
