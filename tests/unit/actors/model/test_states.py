"""The effect of commands on the desired state: a stop is final."""

import pickle

import pytest

from actors.model.states import Command, Desired, IllegalCommand, StopKind, desired_after, turned_text


@pytest.mark.parametrize("state", [Desired.RUNNING, Desired.PAUSED])
def test_every_command_is_legal_until_the_stop(state: Desired) -> None:
    """But for those that want no other state of a flow."""
    others = {Command.FORGET, Command.PAUSE_MOVED, Command.RELEASE_MOVED}
    wanted = [command for command in Command if command not in others]
    assert [desired_after(state, command) for command in wanted] == [Desired.PAUSED, Desired.RUNNING, Desired.STOPPED]


@pytest.mark.parametrize("command", [Command.PAUSE, Command.RESUME])
def test_a_stop_is_final(command: Command) -> None:
    with pytest.raises(IllegalCommand, match=f"cannot {command} a mirror that is stopped") as caught:
        desired_after(Desired.STOPPED, command)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_a_second_stop_is_harmless() -> None:
    assert desired_after(Desired.STOPPED, Command.STOP) is Desired.STOPPED


def test_a_flow_that_a_switchover_has_stopped_names_the_other_direction_and_no_failback() -> None:
    said = turned_text("B->A", StopKind.SWITCHOVER)
    assert "A->B.enabled = true instead of B->A" in said
    assert "raymirror dr switchover 'A->B'" in said
    assert said.endswith("raymirror dr status 'B->A'")
    assert "failback" not in said
    assert "forget" not in said
    assert "raymirror dr failback 'B->A'" in turned_text("B->A", StopKind.FAILOVER)
