"""Cluster checks of a file with mistakes: only findings that no mistake can change."""

import pytest

from engine.base.errors import BrokerUnreachable, ClusterAway, ConfigError, ConnectionLost
from engine.checks import partial_check
from engine.checks.partial_check import PartialCheck, check_partly
from engine.config.config import read_config
from engine.config.config_errors import parts, read_on
from engine.config.file.properties import parse_properties
from engine.config.settings import ClusterConfig, MirrorConfig
from engine.kafka.client.metadata import NO_ID, Metadata, TopicMeta
from tests.unit.engine.config_files import BASE

AWAY = ClusterAway("f:3: B.bootstrap.servers", "B", "b1:9092: refused")


class Client:
    """A client of a cluster with one topic, or of one that fails."""

    def __init__(self, failure: Exception | None) -> None:
        self.failure = failure
        self.closed = False

    async def open(self) -> None:
        if self.failure is not None:
            raise self.failure

    async def metadata(self, _topics: None) -> Metadata:
        return Metadata("id", 1, {}, {"orders": TopicMeta(0, NO_ID, False, {})})

    async def close(self) -> None:
        self.closed = True


class Clusters:
    """Clusters that answer but for those with a failure."""

    def __init__(self) -> None:
        self.failures: dict[str, Exception] = {"B": AWAY}
        self.asked: dict[str, Client] = {}

    def client(self, cluster: ClusterConfig, _client_id: str) -> Client:
        client = self.asked[cluster.alias] = Client(self.failures.get(cluster.alias))
        return client


@pytest.fixture
def clusters(monkeypatch: pytest.MonkeyPatch) -> Clusters:
    found = Clusters()
    monkeypatch.setattr(partial_check, "client_for", found.client)
    return found


def partly(extra: str) -> tuple[MirrorConfig, tuple[ConfigError, ...]]:
    properties = parse_properties(BASE + extra, "mm2.properties")
    with pytest.raises(ConfigError) as raised:
        read_config(properties)
    rest = read_on(properties, raised.value, read_config)[1]
    assert rest is not None
    return rest, parts(raised.value)


async def ask(extra: str) -> PartialCheck:
    return await check_partly(*partly(extra))


async def test_a_cluster_that_is_away_and_a_pattern_that_matches_nothing(clusters: Clusters) -> None:
    found = await ask("tasks.max = two\nemit.checkpoint.enabled = true\nA->B.topics = nothing-at-all, orders\n")
    assert found.problems == (str(AWAY),)
    (doubt,) = found.doubts
    assert (doubt.line, doubt.key) == (7, "A->B.topics")
    assert "'nothing-at-all' matches no topic of cluster 'A'" in doubt.what
    assert all(client.closed for client in clusters.asked.values())


@pytest.mark.parametrize(
    ("extra", "asked"),
    [
        ("tasks.max = two\n", ["A", "B"]),
        ("A->B.topcis = x\n", ["A", "B"]),
        ("B.security.protocol = NONSENSE\n", ["A"]),
        ("B.securty.protocol = SSL\n", ["A"]),
        ("security.protocl = SSL\n", []),
        ("A.bootstrap.servers = nonsense\n", ["B"]),
    ],
    ids=["a number", "a flow's key", "a login", "a cluster's key", "every login", "an address"],
)
async def test_a_cluster_whose_way_in_may_be_mistaken_is_not_asked(
    extra: str, asked: list[str], clusters: Clusters
) -> None:
    await ask(extra)
    assert sorted(clusters.asked) == asked


async def test_who_gives_no_answer_now_is_asked_when_the_file_is_right(clusters: Clusters) -> None:
    clusters.failures |= {"A": ConnectionLost("a:1"), "B": BrokerUnreachable("b1:9092", "nobody listens")}
    found = await ask("tasks.max = two\n")
    why = "b1:9092: cannot connect: nobody listens; set it to brokers that answer from this machine"
    assert found.problems == (f"mm2.properties:3: B.bootstrap.servers: {why}",)
    assert found.doubts == ()
