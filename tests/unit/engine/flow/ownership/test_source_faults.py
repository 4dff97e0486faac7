"""Actions of a lane after a failed fetch, as a table."""

import pytest

from engine.flow.ownership.source_faults import FaultResponse, respond
from engine.flow.ports.ports import FetchFault, Slice
from policies.model import TopicPartition

RETRY = FetchFault(6, "NOT_LEADER_OR_FOLLOWER", retry=True)
RANGE = FetchFault(1, "OFFSET_OUT_OF_RANGE", retry=False, out_of_range=True)
DENIED = FetchFault(29, "TOPIC_AUTHORIZATION_FAILED", retry=True, denied=True)
FATAL = FetchFault(2, "CORRUPT_MESSAGE", retry=False)


def found(fault: FetchFault | None, *, replica: int = -1, diverging: tuple[int, int] | None = None) -> Slice:
    return Slice(TopicPartition("t", 0), 0, 0, 5, 5, 0, [], replica, fault, diverging)


@pytest.mark.parametrize(
    ("said", "leader_is_old", "reads_replica", "response"),
    [
        (found(None, replica=3), True, True, FaultResponse.READ_REPLICA),
        (found(None, replica=0), False, False, FaultResponse.READ_REPLICA),
        (found(FATAL), True, False, FaultResponse.FIND_LEADER),
        (found(RANGE), True, True, FaultResponse.FIND_LEADER),
        (found(None, diverging=(3, 7)), True, False, FaultResponse.FIND_LEADER),
        (found(None, diverging=(3, 7)), False, False, FaultResponse.MEND_DIVERGENCE),
        (found(None, diverging=(3, 7)), False, True, FaultResponse.MEND_DIVERGENCE),
        (found(RANGE), False, True, FaultResponse.ASK_LEADER),
        (found(FATAL), False, True, FaultResponse.ASK_LEADER),
        (found(RANGE), False, False, FaultResponse.CHECK_RANGE),
        (found(DENIED), False, False, FaultResponse.WAIT_FOR_RIGHT),
        (found(RETRY), False, False, FaultResponse.FIND_LEADER),
        (found(FATAL), False, False, FaultResponse.GIVE_UP),
    ],
)
def test_a_fault_has_its_response(
    said: Slice, leader_is_old: bool, reads_replica: bool, response: FaultResponse
) -> None:
    assert respond(said, leader_is_old=leader_is_old, reads_replica=reads_replica) is response
