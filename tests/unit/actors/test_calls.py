"""How an actor's end is told in one line."""

from typing import Any

import pytest
from ray.exceptions import RayActorError, RayError, RayTaskError

from actors.calls import explain
from engine.base.errors import BrokerUnreachable


def task_error(cause: Exception) -> RayError:
    make: Any = RayTaskError  # it has no types
    failed: RayError = make("attend", "Traceback", cause)
    return failed


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (task_error(BrokerUnreachable("b:1", "down")), str(BrokerUnreachable("b:1", "down"))),
        (task_error(ValueError("password=hunter2, of a library")), "ValueError: password=[hidden], of a library"),
        (
            RayActorError(error_msg="The actor raised in its creation task\nValueError: https://me:hunter2@host"),
            "it could not start: ValueError: https://[hidden]@host",
        ),
    ],
)
def test_the_end_of_an_actor_is_one_line_without_secrets(error: RayError, told: str) -> None:
    assert explain(error) == told
