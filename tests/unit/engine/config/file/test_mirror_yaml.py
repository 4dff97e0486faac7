"""`mirror.yaml`: the key space of mm2.properties as a tree, and YAML's traps."""

import contextlib
import re
import textwrap
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import engine
from engine.base.errors import ConfigError
from engine.config.config import load_config, read_config
from engine.config.file.config_file import parse_file
from engine.config.file.mirror_yaml import parse_yaml
from engine.config.file.properties import parse_properties
from engine.config.settings import MirrorConfig

README = Path(engine.__file__).parent.parent / "README.md"
TREE = """\
clusters:
  A:
    bootstrap.servers: [a1:9092, a2:9092]
    consumer.isolation.level: read_uncommitted
  B:
    bootstrap:
      servers: b1:9092
    security.protocol: SASL_SSL
    sasl:
      mechanism: SCRAM-SHA-512
      jaas.config: 'Login required username="u" password="${env:PASSWORD}";'
flows:
  A->B:
    enabled: true
    topics:
    - orders\\..*
    - "clicks"
    topics.exclude: [.*\\.old, tmp]
    raymirror: {start: [orders.*@-PT6H], copiers: 2}
tasks.max: 4
raymirror:
  metrics: {port: 9000, per.partition: false}
refresh.topics.interval.seconds: 600  # as MM2
"""
SAME = """\
clusters = A,B
A.bootstrap.servers = a1:9092,a2:9092
A.consumer.isolation.level = read_uncommitted
B.bootstrap.servers = b1:9092
B.security.protocol = SASL_SSL
B.sasl.mechanism = SCRAM-SHA-512
B.sasl.jaas.config = Login required username="u" password="${env:PASSWORD}";
A->B.enabled = true
A->B.topics = orders\\\\..*,clicks
A->B.topics.exclude = .*\\\\.old,tmp
A->B.raymirror.start = orders.*@-PT6H
A->B.raymirror.copiers = 2
tasks.max = 4
raymirror.metrics.port = 9000
raymirror.metrics.per.partition = false
refresh.topics.interval.seconds = 600
"""
BASE = """\
clusters: {A: {bootstrap.servers: 'a:1'}, B: {bootstrap.servers: 'b:1'}}
flows:
  A->B:
    enabled: true
"""


def config(text: str) -> MirrorConfig:
    return read_config(parse_yaml(text, "mirror.yaml"))


def refused(text: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        config(text)
    assert caught.value.file == "mirror.yaml"
    return caught.value


def test_the_tree_is_the_same_as_the_properties() -> None:
    found, same = parse_yaml(TREE, "f"), parse_properties(SAME, "f")
    assert {key: entry.value for key, entry in found.entries.items()} == {
        key: entry.value for key, entry in same.entries.items()
    }
    assert found.traps == ()
    assert read_config(found).digest == read_config(same).digest
    assert read_config(found).flows[0].topics == (r"orders\..*", "clicks")


def test_lines_are_those_of_the_keys() -> None:
    lines = {key: entry.line for key, entry in parse_yaml(TREE, "f").entries.items()}
    assert lines["clusters"] == 1
    assert lines["B.bootstrap.servers"] == 7
    assert lines["A->B.raymirror.copiers"] == lines["A->B.raymirror.start"] == 19
    assert lines["raymirror.metrics.port"] == 22


def test_the_two_words_of_the_tree_are_not_needed() -> None:
    found = config("clusters: [A, B]\nbootstrap.servers: h:1\nA->B.enabled: true\nA->B: {topics: x}\n")
    assert [str(flow.name) for flow in found.flows] == ["A->B"]
    assert found.flows[0].topics == ("x",)
    assert config("clusters: A, B\nbootstrap.servers: h:1\nA->B.enabled: 'true'\n").flows[0].topics == (".*",)


@pytest.mark.parametrize("name", ["mirror.yaml", "mirror.YML"])
def test_the_ending_tells_the_format(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_text("\ufeff# ä\n" + BASE, encoding="utf-8")
    assert load_config(file).file == str(file)
    file.write_bytes(b"a: b\nb: \xe4\n")
    with pytest.raises(ConfigError, match=r"\.(yaml|YML):2: YAML: bytes that are not UTF-8; save the file as UTF-8"):
        load_config(file)
    assert parse_file(b"a: \xe4", "mm2.properties").get("a") == "ä"


def test_checks_of_the_values_name_the_line_of_the_tree() -> None:
    error = refused(BASE + "    replication.factor: 0\n")
    assert str(error).startswith("mirror.yaml:5: A->B.replication.factor: 0 is out of range; give a number from 1")
    error = refused(BASE + "    raymirror:\n      copiers: many\n")
    assert str(error).startswith("mirror.yaml:6: A->B.raymirror.copiers: 'many' is not a number")
    error = refused(BASE + "  A->C: {enabled: true}\n")
    assert str(error).startswith("mirror.yaml:5: A->C.enabled: cluster 'C' is not in clusters")
    error = refused(BASE + "    topics.blacklist: x\n")
    assert (error.line, error.key) == (5, "A->B.topics.blacklist")
    (warning,) = config(BASE + "    emit.heartbeats: x\n").warnings
    assert (warning.line, warning.key) == (5, "A->B.emit.heartbeats")


@pytest.mark.parametrize("word", ["no", "NO", "y", "On", "off", "yes"])
def test_words_that_are_truth_values_to_some(word: str) -> None:
    error = refused(f"{BASE}    heartbeats.replication.enabled: {word}\n")
    assert str(error).startswith(
        "mirror.yaml:5: A->B.heartbeats.replication.enabled: a word that some YAML readers take for true"
    )
    assert refused(f"{BASE}    topics: [{word}]\n").line == 5
    assert refused(f"clusters: {{{word}: {{bootstrap.servers: h:1}}}}").key == "clusters"
    assert config(f"{BASE}    topics: ['{word}']\n").flows[0].topics == (word,)
    error = refused(f"{BASE}    heartbeats.replication.enabled: '{word}'\n")
    assert error.wrong == f"{word.lower()!r} is neither true nor false"


@pytest.mark.parametrize("word", ["010", "0o17", "0x1F", "0b11", "1_000", "12:30", "1:30.5", "-012", "00"])
def test_numbers_that_are_others_to_some(word: str) -> None:
    error = refused(f"{BASE}    tasks.max: {word}\n")
    assert (error.line, error.key) == (5, "A->B.tasks.max")
    assert error.wrong == "digits that some YAML readers take for another number"
    assert config(f"{BASE}    groups: '{word}'\n").flows[0].groups.include == (word,)


@pytest.mark.parametrize(
    "word", ["0", "7", "-1", "1.10", "1e3", "2026-01-01", "a:9092", "10.0.0.1:9092", "true", "1:99"]
)
def test_what_everybody_reads_alike_counts_as_it_is_written(word: str) -> None:
    assert parse_yaml(f"group.id: {word}", "f").get("group.id") == word


@pytest.mark.parametrize("word", ["", "~", "null", "NULL"])
def test_a_key_without_a_value(word: str) -> None:
    assert refused(f"{BASE}    topics: {word}\n").wrong == "has no value"
    assert parse_yaml('topics: ""', "f").get("topics") == ""


@pytest.mark.parametrize(
    ("text", "line", "key", "wrong"),
    [
        ("", 0, "clusters", "missing"),
        ("# nothing", 0, "clusters", "missing"),
        ("[a, b]", 1, "file", "not a tree of keys"),
        ("tasks.max: 1\ntasks.max: 2", 2, "tasks.max", "set twice, first in line 1"),
        ("tasks.max: 1\ntasks: {max: 2}", 2, "tasks.max", "set twice, first in line 1"),
        ("clusters: [A]\n'clusters': {A: {x: y}}", 2, "clusters", "set twice, first in line 1"),
        ("clusters:\n  A: {tasks.max: 1}\nA.tasks.max: 2", 3, "A.tasks.max", "set twice, first in line 2"),
        ("clusters:\n  A:\n", 2, "A", "has no settings below it"),
        ("clusters:\n  'A,B': {x: y}\n", 2, "clusters", "alias 'A,B' contains a comma"),
        ("flows: A->B\n", 1, "flows", "not a tree of flows"),
        ("flows:\n  A-B: {enabled: true}\n", 2, "flows", "'A-B' is not a flow"),
        ("flows:\n  A->B: true\n", 2, "A->B", "has no settings below it"),
        ("topics: [[a]]", 1, "topics", "a list with an item that is not a single value"),
        ("topics:\n- a\n- 'b,c'", 3, "topics", "an item that contains a comma"),
        ("topics:\n- 'b{1,2}'", 2, "topics", "the comma inside {m,n} splits the list"),
        ("? [a]\n: b", 1, "file", "a key that is not a word"),
        ("a: {b: 1}\n<<: {c: 2}", 2, "file", "merge keys are not supported"),
        ("a: &x b\nc: *x", 1, "c", "used twice through an anchor"),
        ("a: &x\n  b: *x", 1, "a.b", "used twice through an anchor"),
        ("a:\n  b: !!int 3", 2, "a.b", "tags are not supported"),
        ("a: !env X", 1, "a", "tags are not supported"),
        ("a: 1\n\tb: 2", 2, "YAML", "found character '\\t' that cannot start any token"),
        ("a: 1\n b: 2", 2, "YAML", "mapping values are not allowed here"),
        ('topics: "a\\.b"', 1, "YAML", "found unknown escape character '.'"),
        ("password: *hunter2", 1, "YAML", "found undefined alias ..."),
        ("a: 1\n---\nb: 2", 2, "YAML", "but found another document"),
        ("a: \x00", 0, "YAML", "a character that YAML does not allow"),
        ('a: "\\UFFFFFFFF"', 0, "YAML", "a character that YAML does not allow"),
        ('a: "\\U00110000"', 0, "YAML", "a character that YAML does not allow"),
        ("%YAML 1." + "9" * 5000 + "\n--- a", 0, "YAML", "a character that YAML does not allow"),
        ("[" * 5000, 0, "YAML", "nested too deeply"),
        ("a: " + "{a: " * 30 + "b" + "}" * 30, 1, ".".join("a" * 21), "nested too deeply"),
    ],
)
def test_trees_that_cannot_be_read(text: str, line: int, key: str, wrong: str) -> None:
    error = refused(text)
    assert (error.line, error.key, error.wrong) == (line, key, wrong)


def test_a_list_where_one_value_is_meant() -> None:
    for key, value in (("group.id", "x"), ("tasks.max", "1"), ("security.protocol", "SSL")):
        error = refused(f"{BASE}B:\n  {key}: [{value}]\n" if key != "tasks.max" else f"{BASE}{key}: [{value}]\n")
        assert error.wrong == "a list, but this key takes one value"


def test_traps_are_warnings() -> None:
    (warning,) = config(BASE + "    topics: orders\\\\..*\n").warnings
    assert (warning.line, warning.key) == (5, "A->B.topics")
    assert warning.what.startswith("two backslashes stay two here")
    (warning,) = config(BASE + "    topics: [a, 'b\\\\.c']\n").warnings
    assert warning.what.startswith("two backslashes")
    (trap,) = parse_yaml("a.topics: 'x{1,3}'", "f").traps
    assert trap.what.startswith("the comma inside {m,n}")


def test_placeholders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    secrets = tmp_path / "secrets.properties"
    secrets.write_text("group = g7\n")
    monkeypatch.setenv("TASKS", "5")
    found = config(f"{BASE}    tasks.max: ${{env:TASKS}}\nB:\n  group.id: ${{file:{secrets}:group}}\n").flows[0]
    assert (found.most_copiers, found.mm2_group) == (5, "g7")


def test_the_examples_of_the_readme_say_the_same() -> None:
    blocks = dict(re.findall(r"   ```(yaml|properties)\n(.*?)   ```", README.read_text(), re.DOTALL))
    tree = parse_yaml(textwrap.dedent(blocks["yaml"]), "mirror.yaml")
    same = parse_properties(textwrap.dedent(blocks["properties"]), "mm2.properties")
    found = read_config(tree)
    assert found.warnings == ()
    assert found.flows[0].topics == read_config(same).flows[0].topics == ("orders.*", "clicks")
    assert set(tree.entries) == set(same.entries)


@given(st.text(alphabet=" \n:-[]{},'\"#&*!|>\\?%@.ab01~nox", max_size=60) | st.text(max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(ConfigError):
        assert all(entry.line > 0 for entry in parse_yaml(text, "f").entries.values())
