"""The list of jars, and the handling of a missing or wrong jar."""

import fcntl
import hashlib
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from deploy.local import ivy, jars
from deploy.local.errors import ClusterError
from deploy.local.jar_list import Jar, decode_jars, listed_jars, wrong_jars

SUM = "ab" * 32
CONTENT = b"a jar"


def jar(name: str = "thing") -> Jar:
    return Jar(organisation="org.example", name=name, revision="1.0", sha256=hashlib.sha256(CONTENT).hexdigest())


def put(folder: Path, one: Jar, content: bytes) -> None:
    path = folder / one.path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


@pytest.mark.local
def test_who_waits_for_a_lock_says_so_and_has_it_then(tmp_path: Path) -> None:
    said: list[str] = []
    with (tmp_path / "one.lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)

        def waiting() -> None:
            said.append("waiting")
            fcntl.flock(other, fcntl.LOCK_UN)

        with jars.locked(tmp_path / "one.lock", waiting) as is_held:
            assert is_held
            with pytest.raises(BlockingIOError):
                fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert said == ["waiting"]


@pytest.mark.local
def test_who_does_not_wait_for_a_lock_knows_that_another_has_it(tmp_path: Path) -> None:
    with jars.locked(tmp_path / "one.lock") as first:
        with jars.locked(tmp_path / "one.lock") as second:
            assert (first, second) == (True, False)
        with jars.locked(tmp_path / "two.lock") as other:
            assert other


def test_the_lists_hold_a_broker_and_sparks_kafka_source() -> None:
    kafka, spark = listed_jars("kafka"), listed_jars("spark")
    assert len(kafka) == 94
    assert len(spark) == 4
    assert {one.revision for one in kafka if one.organisation == "org.apache.kafka"} == {"4.3.1"}
    assert len({one.path for one in kafka + spark}) == 98


def test_the_list_for_buckets_holds_what_sparks_hadoop_needs() -> None:
    assert {(one.name, one.revision) for one in listed_jars("s3")} == {
        ("hadoop-aws", "3.3.4"),
        *((f"aws-java-sdk-{part}", "1.12.262") for part in ("core", "dynamodb", "s3", "sts")),
    }


def test_the_jars_for_buckets_are_there_only_after_they_were_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = jar()
    monkeypatch.setattr(jars, "listed_jars", lambda name: [one] if name == "s3" else [])
    asked: list[list[Jar]] = []
    monkeypatch.setattr(ivy, "retrieve", serve(CONTENT, asked))
    assert jars.s3_jar_paths(tmp_path) == ()
    folder = jars.ensure_s3_jars(lambda _: None, tmp_path)
    assert jars.s3_jar_paths(tmp_path) == (folder / one.path,)
    assert folder.name.startswith("s3-jars-")
    assert asked == [[one]]


def test_a_line_decodes_to_its_parts() -> None:
    (one,) = decode_jars(f"{SUM}  org.example/a-b_2.13/1.0-2/a-b_2.13-1.0-2.jar\n")
    assert (one.organisation, one.name, one.revision, one.sha256) == ("org.example", "a-b_2.13", "1.0-2", SUM)


@pytest.mark.parametrize(
    ("line", "part_of_error"),
    [
        (f"{SUM}  org.example/a/1.0/b-1.0.jar", "should be called a-1.0.jar, not b-1.0.jar"),
        (f"{SUM}  org.example/a-1.0.jar", "line 1: expected"),
        ("abc  org.example/a/1.0/a-1.0.jar", "line 1: expected"),
    ],
)
def test_a_line_that_makes_no_sense_is_named(line: str, part_of_error: str) -> None:
    with pytest.raises(ValueError, match=part_of_error):
        decode_jars(line)


def test_a_missing_and_an_altered_jar_are_wrong(tmp_path: Path) -> None:
    right, altered, missing = jar("right"), jar("altered"), jar("missing")
    put(tmp_path, right, CONTENT)
    put(tmp_path, altered, b"other bytes")
    assert wrong_jars([right, altered, missing], tmp_path) == [altered, missing]


@pytest.fixture
def two_jars(monkeypatch: pytest.MonkeyPatch) -> list[Jar]:
    both = [jar("one"), jar("two")]
    monkeypatch.setattr(jars, "listed_jars", lambda name: both if name == "kafka" else [])
    return both


def serve(content: bytes, asked: list[list[Jar]]) -> Callable[[Sequence[Jar], Path, jars.Say], None]:
    def retrieve(wanted: Sequence[Jar], folder: Path, _say: jars.Say) -> None:
        asked.append(list(wanted))
        for one in wanted:
            put(folder, one, content)

    return retrieve


def test_jars_are_fetched_once_and_announced_with_their_size(
    tmp_path: Path, two_jars: list[Jar], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[Jar]] = []
    said: list[str] = []
    monkeypatch.setattr(ivy, "retrieve", serve(CONTENT, asked))
    folder = jars.ensure_jars(said.append, tmp_path)
    assert jars.ensure_jars(said.append, tmp_path) == folder
    assert asked == [two_jars]
    assert len(said) == 1
    assert "2 of 2 jars" in said[0]
    assert "60 MiB" in said[0]


def test_only_what_is_damaged_is_fetched_again(
    tmp_path: Path, two_jars: list[Jar], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[Jar]] = []
    monkeypatch.setattr(ivy, "retrieve", serve(CONTENT, asked))
    folder = jars.ensure_jars(lambda _: None, tmp_path)
    (folder / two_jars[1].path).write_bytes(b"damaged")
    jars.ensure_jars(lambda _: None, tmp_path)
    assert asked == [two_jars, [two_jars[1]]]
    assert wrong_jars(two_jars, folder) == []


def test_a_jar_with_another_sum_is_refused(
    tmp_path: Path, two_jars: list[Jar], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ivy, "retrieve", serve(b"not what was listed", []))
    with pytest.raises(ClusterError, match=r"2 with other sha256 sums .* org.example/one/1.0/one-1.0.jar"):
        jars.ensure_jars(lambda _: None, tmp_path)
    assert two_jars


def test_the_module_asks_for_these_jars_only() -> None:
    tree = ElementTree.fromstring(ivy.encode_module([jar("one"), jar("two")]))
    dependencies = tree.findall("./dependencies/dependency")
    assert [one.get("name") for one in dependencies] == ["one", "two"]
    assert {one.get("transitive") for one in dependencies} == {"false"}


def test_proxies_of_the_environment_reach_the_jvm() -> None:
    environment = {"https_proxy": "http://proxy.example:3128", "NO_PROXY": "localhost, .corp.example"}
    assert ivy.proxy_flags(environment) == [
        "-Dhttps.proxyHost=proxy.example",
        "-Dhttps.proxyPort=3128",
        "-Dhttp.nonProxyHosts=localhost|*.corp.example",
    ]
    assert ivy.proxy_flags({}) == []


@pytest.mark.local
def test_a_settings_file_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAYMIRROR_IVY_SETTINGS", str(tmp_path / "mine.xml"))
    with pytest.raises(ClusterError, match=r"RAYMIRROR_IVY_SETTINGS names .*mine.xml, which is not a file"):
        ivy.retrieve([jar()], tmp_path, lambda _: None)
