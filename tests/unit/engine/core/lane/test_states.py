"""The whole transition table, written a second time."""

import itertools
import pickle

import pytest

from engine.core.lane.states import IllegalTransition, State, step
from engine.core.lane.states import LaneTrigger as E

S = State
LIVING = (S.ACQUIRING, S.WATCHING, S.COPYING, S.TROUBLED, S.WAITING, S.SETTLING, S.REFUSED)
LEGAL = {
    (S.ACQUIRING, E.OWNED): S.COPYING,
    (S.ACQUIRING, E.RESTED): S.WATCHING,
    (S.WATCHING, E.AWOKEN): S.ACQUIRING,
    (S.COPYING, E.APPEND_FAILED): S.TROUBLED,
    (S.TROUBLED, E.RESEND): S.WAITING,
    (S.TROUBLED, E.SETTLE): S.SETTLING,
    (S.TROUBLED, E.REFUSE): S.REFUSED,
    (S.WAITING, E.RETRY): S.COPYING,
    (S.REFUSED, E.RETRY): S.COPYING,
    (S.SETTLING, E.SETTLED): S.WAITING,
    **{(state, E.OWNERSHIP_LOST): S.ACQUIRING for state in (*LIVING, S.FAILED)},
    **{(state, E.FATAL): S.FAILED for state in LIVING},
    **{(state, E.STOP): S.STOPPED for state in (*LIVING, S.FAILED)},
}


@pytest.mark.parametrize(("state", "event"), list(itertools.product(S, E)), ids=str)
def test_every_state_and_event(state: State, event: E) -> None:
    if (state, event) in LEGAL:
        assert step(state, event) is LEGAL[state, event]
    else:
        with pytest.raises(IllegalTransition):
            step(state, event)


def test_an_illegal_transition_names_both_and_survives_a_process() -> None:
    with pytest.raises(IllegalTransition) as caught:
        step(S.STOPPED, E.OWNED)
    assert str(pickle.loads(pickle.dumps(caught.value))) == "lane event 'owned' while 'stopped'"
