"""Trees of JSON and YAML know their lines, and read words as Connect and Kubernetes do."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import ConfigError
from engine.convert.nodes import Branch, Items, Leaf, Node, parse_json, parse_yaml_documents


def plain(node: Node | None) -> object:
    """The tree without its places."""
    match node:
        case Leaf():
            return node.text
        case Branch():
            return {name: plain(part) for name, part in node.entries.items()}
        case Items():
            return [plain(item) for item in node.items]
    return None


def yaml(text: str) -> Branch:
    (found,) = parse_yaml_documents(text, "f")
    assert isinstance(found, Branch)
    return found


def test_json_with_its_lines() -> None:
    found = parse_json('{"a":\n {"b": [1,\n {"c": null}]},\n\n"d\\"e": "x,]}"}', "f")
    assert plain(found) == {"a": {"b": ["1", {"c": None}]}, 'd"e': "x,]}"}
    assert isinstance(found, Branch)
    assert str(found.at("a")) == "f:1: a"
    assert str(found.branch("a").at("b")) == "f:2: a.b"
    items = found.branch("a").get("b")
    assert isinstance(items, Items)
    assert [str(item.origin) for item in items.items] == ["f:2: a.b[0]", "f:3: a.b[1]"]
    assert str(found.at('d"e')) == 'f:5: d"e'


def test_json_as_connect_reads_it() -> None:
    text = '{"t": true, "n": -1.50, "big": 123456789012345678901234567890, "u": "\\u00e9\\ud83d\\ude00", "t": false}'
    assert plain(parse_json(text, "f")) == {
        "t": "false",
        "n": "-1.50",
        "big": "123456789012345678901234567890",
        "u": "é😀",
    }


def test_half_of_a_character_can_be_written_to_a_file() -> None:
    found = plain(parse_json('["\\ud83d"]', "f"))
    assert found == ["\ufffd"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def as_text(value: object) -> object:
    """A value of JSON as a tree has it."""
    match value:
        case None | str():
            return value
        case dict():
            return {name: as_text(part) for name, part in value.items()}
        case list():
            return [as_text(item) for item in value]
    return json.dumps(value)


@given(JSON, st.sampled_from([None, 0, 1, 3]))
def test_every_json_is_read_as_it_is(value: object, indent: int | None) -> None:
    assert plain(parse_json(json.dumps(value, indent=indent), "f")) == as_text(value)
    assert plain(parse_json(json.dumps(value, indent=indent, ensure_ascii=False), "f")) == as_text(value)


def test_yaml_as_kubernetes_reads_it() -> None:
    found = yaml("a: yes\nb: 'yes'\nc: ~\nd:\ne: OFF\nf: 0x1F\ng: True\nh: \"\"\ni: y\n")
    assert plain(found) == {
        "a": "true",
        "b": "yes",
        "c": None,
        "d": None,
        "e": "false",
        "f": "0x1F",
        "g": "true",
        "h": "",
        "i": "y",
    }
    assert [(name, value.text, value.origin.line) for name, value in found.values()][0:2] == [
        ("a", "true", 1),
        ("b", "yes", 2),
    ]
    assert dict(found.values()).keys() == {"a", "b", "e", "f", "g", "h", "i"}


def test_documents_of_a_file() -> None:
    found = parse_yaml_documents("---\na: 1\n---\n---\n[b]\n...\n", "f")
    assert [plain(node) for node in found] == [{"a": "1"}, ["b"]]
    assert [node.origin.line for node in found] == [2, 5]


def test_anchors_are_read_once_however_often_they_are_used() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30)]
    found = yaml("\n".join(lines))
    last = found.get("a29")
    assert isinstance(last, Items)
    assert last.items[0] is last.items[9]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("branch", "f:1: v: not a tree of keys"),
        ("branches", "f:1: v: not a list"),
    ],
)
def test_a_part_of_another_form(name: str, says: str) -> None:
    found = yaml("v: 1\nt: {x: 1}\n")
    with pytest.raises(ConfigError, match=says):
        getattr(found, name)("v")
    assert plain(getattr(found, name)("none") or Leaf(None, found.origin)) in ({}, None)


def test_a_value_that_is_missing_or_no_single_one() -> None:
    found = yaml("t: {x: 1}\ne: ''\n")
    with pytest.raises(ConfigError, match="f:1: t: not a single value"):
        found.text("t")
    with pytest.raises(ConfigError, match="f:2: e: empty; name it"):
        found.needed("e", "name it")
    with pytest.raises(ConfigError, match="f:1: none: missing; name it"):
        found.needed("none", "name it")
    with pytest.raises(ConfigError, match="f:1: t: not a single value"):
        dict(found.values())
    with pytest.raises(ConfigError, match=r"f:1: v\[0\]: not a tree of keys"):
        yaml("v: [1]").branches("v")


def test_no_text_of_a_leaf_shows_its_value() -> None:
    found = yaml("a: PLANTED\n")
    assert "PLANTED" not in repr(found) + repr(dict(found.values()))
    assert list(found.entries["a"].__rich_repr__()) == [("origin", "f:1: a")]
