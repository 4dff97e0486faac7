"""The two tables: complete, and without a way out of the end."""

import pickle

import pytest

from actors.model.states import (
    COPIER,
    DESIRED,
    Command,
    CopierState,
    Desired,
    IllegalCommand,
    Sign,
    copier_after,
    desired_after,
)


def test_every_state_has_a_row() -> None:
    assert set(DESIRED) == set(Desired)
    assert set(COPIER) == set(CopierState)


@pytest.mark.parametrize("state", [Desired.RUNNING, Desired.PAUSED])
def test_every_command_is_legal_until_the_stop(state: Desired) -> None:
    assert [desired_after(state, command) for command in Command] == [Desired.PAUSED, Desired.RUNNING, Desired.STOPPED]


@pytest.mark.parametrize("command", [Command.PAUSE, Command.RESUME])
def test_a_stop_is_final(command: Command) -> None:
    with pytest.raises(IllegalCommand, match=f"cannot {command} a mirror that is stopped") as caught:
        desired_after(Desired.STOPPED, command)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_a_second_stop_is_harmless() -> None:
    assert desired_after(Desired.STOPPED, Command.STOP) is Desired.STOPPED


@pytest.mark.parametrize("state", list(CopierState))
def test_an_end_is_an_end_from_everywhere(state: CopierState) -> None:
    assert copier_after(state, Sign.ENDED) is CopierState.GONE


def test_a_late_answer_does_not_undo_a_drain() -> None:
    assert copier_after(CopierState.DRAINING, Sign.ANSWERED) is CopierState.DRAINING
