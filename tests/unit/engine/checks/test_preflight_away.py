"""Checks before a start while clusters are unreachable."""

import pickle
from collections.abc import Callable

import pytest

from engine.base.errors import BrokerRefuses, BrokerUnreachable, ClusterAway, ClusterRefuses, NotReady, OtherCluster
from engine.checks import preflight
from engine.checks.preflight import preview
from tests.unit.engine.config_files import mirror

AWAY = ClusterAway("f:2: A.bootstrap.servers", "A", "a:1: connection refused")
BARS = ClusterRefuses("f:3: B.bootstrap.servers", "B", "b:1: not that password")
OTHER = OtherCluster("b:1", "x", "y", "z")
Bear = Callable[[str, BrokerUnreachable], None]


class Client:
    """A client that cannot connect."""

    def __init__(self, failure: BrokerUnreachable) -> None:
        self.failure = failure

    async def open(self) -> None:
        raise self.failure

    async def close(self) -> None:
        return None


@pytest.fixture
def failures(monkeypatch: pytest.MonkeyPatch) -> dict[str, BrokerUnreachable]:
    found: dict[str, BrokerUnreachable] = {"A": AWAY, "B": ClusterAway("", "B", "connection refused")}
    monkeypatch.setattr(preflight, "asking_client", lambda _config, alias, _client_id: Client(found[alias]))
    return found


@pytest.mark.usefixtures("failures")
async def test_clusters_that_are_away_are_borne_also_where_no_flow_is_left() -> None:
    told: list[str] = []
    assert await preview(mirror(), lambda alias, _why: told.append(alias)) == ()
    assert told == ["A", "B"]
    with pytest.raises(NotReady) as refused:
        await preview(mirror())
    assert [text.partition(": no broker")[0] for text in refused.value.problems] == [
        "f:2: A.bootstrap.servers",
        "no broker of cluster 'B' answers: connection refused",
    ]


@pytest.mark.parametrize("failure", [BARS, OTHER])
async def test_what_waiting_does_not_mend_is_an_error_at_once(
    failure: BrokerUnreachable, failures: dict[str, BrokerUnreachable]
) -> None:
    failures["B"] = failure
    told: list[str] = []
    with pytest.raises(type(failure)):
        await preview(mirror(), lambda alias, _why: told.append(alias))
    assert told == []


def test_a_cluster_that_refuses_says_so_also_in_another_process() -> None:
    again = pickle.loads(pickle.dumps(BARS))
    assert isinstance(again, BrokerRefuses)
    assert str(again) == "f:3: B.bootstrap.servers: no broker of cluster 'B' accepts raymirror: b:1: not that password"
    assert (AWAY.may_pass, again.may_pass) == (True, False)
