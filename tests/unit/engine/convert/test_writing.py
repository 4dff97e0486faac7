"""The text of the new file: values are read as they were, comments are comments."""

import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from engine.config.file.mirror_yaml import parse_yaml
from engine.convert.model import Carried, Dropped, Origin
from engine.convert.settling import Settled
from engine.convert.writing import lost_text, quoted, write_yaml

TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@given(TEXT)
@example("yes")
@example("0x1F")
@example("1_000")
@example("a: b # c")
@example("\u2028\x85\ufeff\x00\x7f")
@example("it's")
@example("\\d\n\t")
@example(" x ")
def test_a_value_is_read_as_it_was(text: str) -> None:
    assert yaml.compose(f"k: {quoted(text)}", Loader=yaml.BaseLoader).value[0][1].value == text
    assert parse_yaml(f"k: {quoted(text)}\n", "f").get("k") == text
    assert "\n" not in quoted(text)


def test_usual_values_need_no_quotes() -> None:
    words = ["true", "false", "12", "-1", "orders", "SASL_SSL", "a->b.MirrorSourceConnector", "cluster-a"]
    assert [quoted(word) for word in words] == words
    assert quoted("on") == "'on'"
    assert quoted("") == "''"


AT = Origin("old", 3, "key")


@given(TEXT, TEXT, TEXT)
def test_no_comment_becomes_a_setting(why: str, name: str, value: str) -> None:
    settings = {"a->b.topics": Carried("a->b.topics", value, Origin(name, 1, name), why)}
    dropped = (Dropped(Origin(name, 2, name), why, why, "a"), Dropped(Origin(name, 3, name), why, needless=True))
    settled = Settled(settings, dropped, ("a", "b"), ("a->b",), ())
    text = write_yaml(name, [name], settled)
    assert {key: one.value for key, one in parse_yaml(text, "f").entries.items()} == {
        "clusters": "a,b",
        "a->b.topics": value,
    }
    assert text.count("NOT CARRIED") >= 2


def test_comments_are_wrapped_and_beside_what_they_are_about() -> None:
    settings = {
        "a.x": Carried("a.x", "1", AT),
        "a->b.y": Carried("a->b.y", "2", AT, "so " * 60),
        "z": Carried("z", "3", AT),
    }
    dropped = (
        Dropped(AT, "no cluster has it", near="a"),
        Dropped(AT, "no flow has it", "write w", near="a->b.v"),
        Dropped(AT, "nobody has it"),
        Dropped(AT, "nobody needs it", needless=True),
    )
    lines = write_yaml("K", ["f", "g"], Settled(settings, dropped, ("a", "b"), ("a->b",), ())).splitlines()
    assert max(map(len, lines)) <= 118
    stripped = [line.strip() for line in lines if line.strip() and not line.startswith("    #   ")]
    assert stripped == [
        "# Made by `raymirror convert` from K: f, g",
        "# Check it against its clusters: raymirror check FILE",
        "# NOT CARRIED: 3, each named below with its reason",
        "# NOT CARRIED: old:3: key: nobody has it",
        "clusters:",
        "a:",
        "x: 1",
        "# NOT CARRIED: old:3: key: no cluster has it",
        "b: {}",
        "flows:",
        "a->b:",
        f"# old:3: key: {'so ' * 32}so",
        "'y': 2",
        "# NOT CARRIED: old:3: key: no flow has it; write w",
        "z: 3",
        "# Not needed here, and nothing is lost:",
        "# - key: nobody needs it",
    ]


def test_what_is_lost_is_one_sentence() -> None:
    assert lost_text(Dropped(AT, "why", "what")) == "old:3: key: why; what"
    assert lost_text(Dropped(Origin("f", 0, ""), "why")) == "f: why"
