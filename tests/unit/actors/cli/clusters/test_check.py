"""The output of `raymirror check` for a flow."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from actors.cli import main
from actors.cli.clusters import check
from actors.cli.clusters.check import show
from engine.base.errors import NotReady
from engine.checks.preflight import FlowPreview, TopicPreview
from engine.config.config import load_config
from engine.config.storage import Storage
from engine.jobs.runtime import storage_check
from engine.jobs.runtime.storage_access import BadStorageAccess
from engine.jobs.runtime.storage_check import StorageUnusable
from engine.kafka.capabilities.probe import judge
from policies.model import FlowName
from tests.unit.engine.config_files import mirror
from tests.unit.engine.kafka.capabilities.test_table import RELEASES

FLOW = FlowName("A", "B")
TOPIC = TopicPreview(source="t", target="A.t", partitions=3, exists=False)


def test_a_flow_without_topics_says_that_it_waits_for_some(capsys: pytest.CaptureFixture[str]) -> None:
    show(FlowPreview(flow=FLOW, topics=(), left_out=3))
    assert capsys.readouterr().out.splitlines() == [
        "A->B: 0 topics, 0 partitions; left out: 3 topics",
        "note: A->B: no topic of 'A' matches `topics` yet; a topic that appears later and matches is copied",
    ]
    show(FlowPreview(flow=FLOW, topics=(TOPIC,), left_out=0))
    assert "note:" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("missing", "says"),
    [
        ((), ""),
        (("Write",), "grant raymirror Write on"),
        (("Write", "Describe"), "grant raymirror Write and Describe on"),
    ],
)
def test_missing_rights_are_named(missing: tuple[str, ...], says: str) -> None:
    text = FlowPreview(flow=FLOW, topics=(), left_out=0, unfenced=missing).unfenced_text()
    assert says in text
    assert bool(text) == bool(missing)


def test_brokers_that_do_not_say_how_long_they_remember_producers_are_named() -> None:
    assert FlowPreview(flow=FLOW, topics=(), left_out=0).expiry_text() == ""
    text = FlowPreview(flow=FLOW, topics=(), left_out=0, unread_expiry=(1, 3)).expiry_text()
    assert "producer.id.expiration.ms cannot be read from 2 brokers of cluster 'B' (1, 3)" in text
    assert "grant DescribeConfigs on the cluster" in text


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "mm2.properties"
    made.write_text(
        "clusters = A, B\nA.bootstrap.servers = 127.0.0.1:1\nB.bootstrap.servers = 127.0.0.1:2\n"
        "A->B.enabled = true\nA->B.topics = t\n"
    )
    return made


def test_json_is_one_object(path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    flow = FlowPreview(flow=FLOW, topics=(TOPIC,), left_out=0)
    monkeypatch.setattr(check, "prepare", lambda config: (load_config(config), (flow,)))
    assert main.main(["check", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["ready"] is True
    assert [topic["target"] for topic in found["flows"][0]["topics"]] == ["A.t"]


def test_what_clusters_can_do_is_a_table_and_part_of_the_json(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = (judge(alias, {1: RELEASES[release]}) for alias, release in (("A", "2.1"), ("B", "4.3")))
    flow = FlowPreview(flow=FLOW, topics=(TOPIC,), left_out=0, abilities=(old, new))
    monkeypatch.setattr(check, "prepare", lambda config: (load_config(config), (flow,)))
    monkeypatch.setenv("COLUMNS", "200")
    assert main.main(["check", str(path)]) == 0
    said = capsys.readouterr().out
    assert "cluster 'B': 1 broker: can do all that raymirror asks" in said
    assert "cluster 'A': 1 broker: lacks " in said
    rows = [line for line in said.splitlines() if line.startswith("A ")]
    assert any("reading from followers" in row and "not at 1: Fetch 11 or newer" in row for row in rows)
    assert not any("transactions" in row for row in rows), "a source needs none"
    assert main.main(["check", str(path), "--abilities"]) == 0
    assert len([line for line in capsys.readouterr().out.splitlines() if line.startswith("B ") and "yes" in line]) > 10
    assert main.main(["check", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["flows"][0]["abilities"] == []
    source, target = found["clusters"]
    assert (source["cluster"], target["cluster"], target["brokers"]) == ("A", "B", [1])
    (ids,) = (one for one in source["abilities"] if one["name"] == "topic ids")
    assert (ids["has"], ids["weight"], ids["requests"], ids["since"]) == (
        False,
        "guarantee",
        ["Metadata 10 or newer"],
        "2.8",
    )


@pytest.mark.local
def test_json_of_a_file_with_mistakes_is_one_object_too(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path.write_text(path.read_text() + "A->B.topcis = u\n")
    assert main.main(["check", str(path), "--json"]) == 2
    said = capsys.readouterr()
    wrong = f"{path}:6: A->B.topcis: no such key; did you mean A->B.topics?"
    away = [
        f"{path}:{line}: {alias}.bootstrap.servers: no broker of cluster {alias!r} answers: 127.0.0.1:{port}: cannot"
        " connect: the connection is refused: nothing listens on that port"
        for line, alias, port in ((2, "A", 1), (3, "B", 2))
    ]
    problems = [wrong, *away]
    assert json.loads(said.out) == {"config": str(path), "ready": False, "problems": problems}
    assert said.err.splitlines() == ["raymirror check: 3 problems", *(f"  {one}" for one in problems)]


def test_json_lists_all_that_clusters_say(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(_config: Path) -> None:
        raise NotReady("too many replicas", "B is away")

    monkeypatch.setattr(check, "prepare", refuse)
    assert main.main(["check", str(path), "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["problems"] == ["too many replicas", "B is away"]


def test_a_mirror_of_no_topic_is_ready_and_says_that_it_copies_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    flow = FlowPreview(flow=FLOW, topics=(), left_out=2)
    monkeypatch.setattr(check, "prepare", lambda config: (load_config(config), (flow,)))
    assert main.main(["check", str(path)]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"ready, but copies nothing: no topic matches: raymirror run {path}"


def near(path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the file say where copiers run, and both clusters answer."""
    path.write_text(path.read_text() + "B.raymirror.site = west\nraymirror.copiers.near = target\n")
    flow = FlowPreview(flow=FLOW, topics=(TOPIC,), left_out=0)
    monkeypatch.setattr(check, "prepare", lambda config: (load_config(config), (flow,)))
    return path


def test_a_mirror_with_its_own_ray_has_only_one_place(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["check", str(near(path, monkeypatch))]) == 0
    assert "raymirror.copiers.near: has no effect here" in capsys.readouterr().err


@pytest.mark.parametrize(("site", "warns"), [("west", False), ("east", True)])
def test_a_site_without_a_node_is_a_warning(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], site: str, warns: bool
) -> None:
    nodes = [{"Alive": True, "Resources": {"CPU": 1.0, f"raymirror_site_{site}": 1.0}}]
    closed: list[bool] = []
    ray = SimpleNamespace(ray=SimpleNamespace(nodes=lambda: nodes), close=lambda: closed.append(True))
    monkeypatch.setattr("actors.ray.connect.attach", lambda address, *, local: ray)
    assert main.main(["check", str(near(path, monkeypatch)), "--address", "h:6379", "--json"]) == 0
    (*_, found) = json.loads(capsys.readouterr().out)["warnings"] or [{"what": ""}]
    assert ("is in site west" in found["what"]) is warns
    assert closed == [True]


def test_a_ray_cluster_that_does_not_answer_is_a_warning(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["check", str(near(path, monkeypatch)), "--address", "nowhere"]) == 0
    assert "its sites were not checked: no Ray cluster answers at nowhere" in capsys.readouterr().err


def test_a_bucket_that_cannot_be_listed_from_here_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = Storage.parse("s3a://bucket/kept")
    monkeypatch.setattr(storage_check, "list_bucket", lambda uri: None)
    assert check.storage_warnings(None) == check.storage_warnings(Storage.parse("file:/kept")) == []
    assert check.storage_warnings(bucket) == []

    def refuse(uri: str) -> None:
        raise StorageUnusable(uri, "no such bucket", "create it", False)

    monkeypatch.setattr(storage_check, "list_bucket", refuse)
    (warning,) = check.storage_warnings(bucket)
    assert "raymirror.storage: s3a://bucket/kept cannot be used from here: no such bucket; create it" in str(warning)

    def misnamed(_uri: str) -> None:
        raise BadStorageAccess("it is none", "write a URL")

    monkeypatch.setattr(storage_check, "list_bucket", misnamed)
    (warning,) = check.storage_warnings(bucket)
    assert "it is none; write a URL" in str(warning)


def test_secrets_of_the_http_server_that_are_not_here_are_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EVE", raising=False)
    lines = (
        "raymirror.http.users = eve\nraymirror.http.user.eve.token = ${env:EVE}\n"
        "raymirror.http.tls.certificate = /nowhere.pem\n"
    )
    token, certificate = check.http_warnings(mirror(lines).http)
    assert (token.line, token.key) == (6, "raymirror.http.user.eve.token")
    assert token.what == "environment variable EVE is not set on this machine; set it for this process"
    assert str(certificate).startswith(
        "line 7: raymirror.http.tls.certificate: cannot be used: No such file or directory on this machine;"
    )
    monkeypatch.setenv("EVE", "t0ken")
    assert check.http_warnings(mirror(lines.partition("raymirror.http.tls")[0]).http) == []
