"""A job waits until it is woken or must stop."""

import threading

from engine.jobs.runtime.idle_wait import IdleWait

LONG_S = 600.0
"""A wait of this length fails the test run: nothing here may take it."""


def test_a_wake_up_ends_the_wait() -> None:
    idle = IdleWait()
    threading.Timer(0.01, idle.wake).start()
    idle.wait(LONG_S)


def test_wake_ups_that_come_while_the_job_works_end_its_next_wait_only() -> None:
    idle, woken = IdleWait(), []
    idle.wake()
    idle.wake()
    idle.wait(LONG_S)

    def wake() -> None:
        woken.append(True)
        idle.wake()

    threading.Timer(0.01, wake).start()
    idle.wait(LONG_S)
    assert woken, "the second wait lasts until the next wake-up"


def test_a_job_that_is_to_stop_does_not_wait_again() -> None:
    idle = IdleWait()
    idle.end()
    for _ in range(3):
        idle.wait(LONG_S)
