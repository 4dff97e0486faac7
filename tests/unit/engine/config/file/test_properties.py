"""`.properties` as java.util.Properties reads them, and the traps of the format."""

from pathlib import Path

import pytest

from engine.base.errors import ConfigError
from engine.config.file.properties import Properties, load_properties, parse_properties


def read(text: str) -> Properties:
    return parse_properties(text, "mm2.properties")


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("a=b", "a", "b"),
        ("a = b ", "a", "b "),
        ("a:b", "a", "b"),
        ("a b", "a", "b"),
        ("  a \t =\f b=c", "a", "b=c"),
        ("a", "a", ""),
        ("a=", "a", ""),
        ("a: =b", "a", "=b"),
        (r"a\=b\:c\ d=e", "a=b:c d", "e"),
        (r"a\\=b", "a\\", "b"),
        (r"a=foo\\.bar", "a", r"foo\.bar"),
        (r"a=foo\.bar", "a", "foo.bar"),
        (r"a=x\ty\u00e9\n", "a", "x\tyé\n"),
        (r"a=\ud83d\ude00", "a", "\U0001f600"),
        ("a=b,\\\n   c", "a", "b,c"),
        ("a=b\\\r\n  #c", "a", "b#c"),
        ("a=b\\\\\nc=d", "a", "b\\"),
        ("a=b\\\n\nc=d", "a", "b"),
        ("a=b\\", "a", "b"),
        ("a=b # c", "a", "b # c"),
        ("A->B.enabled = true", "A->B.enabled", "true"),
    ],
)
def test_values(text: str, key: str, value: str) -> None:
    assert read(text).get(key) == value


def test_comments_blanks_and_lines() -> None:
    found = read("# a=1\n! b=2\n\n  \t\n  # c\nd=1\n\\\n# x\ne=1,\\\n 2\r\nf=3\rg=4")
    assert {key: (entry.value, entry.line) for key, entry in found.entries.items()} == {
        "d": ("1", 6),
        "e": ("1,2", 9),
        "f": ("3", 11),
        "g": ("4", 12),
    }
    assert found.get("x") is None
    assert found.line("e") == 9
    assert found.line("x") == 0


def test_bytes_are_latin_1(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_bytes(b"a=\xe9")
    assert load_properties(file).get("a") == "é"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("a=true # on", "part of the value"),
        (r"a=foo\.bar", "single backslash"),
        ("topics=x{1,3}", "comma inside {m,n}"),
        ("a=1\na=2", "value of line 1 is lost"),
    ],
)
def test_traps(text: str, what: str) -> None:
    (trap,) = read(text).traps
    assert what in trap.what
    assert str(trap).startswith(f"line {text.count(chr(10)) + 1}: ")


@pytest.mark.parametrize(
    "text", ["a= x ", r"jaas=p=\"x{1,2}\";", "a=b#c", r"a=foo\\.bar", r"a=x\ty\=z\u0041", "# a=b # c", "a=x{3}"]
)
def test_no_traps(text: str) -> None:
    assert read(text).traps == ()


def test_the_last_value_counts() -> None:
    assert read("a=1\na=2").get("a") == "2"


def test_a_broken_unicode_escape_is_refused_as_java_does() -> None:
    with pytest.raises(ConfigError) as caught:
        read("x=1\na=\\u12")
    assert str(caught.value).startswith("mm2.properties:2: a: a \\u without four hex digits")
    assert read(r"a=\\u12").get("a") == r"\u12"


@pytest.mark.parametrize("equals", [" = ", "="])
def test_a_backslash_that_takes_the_next_setting_into_its_value_is_told(equals: str) -> None:
    text = f"a->b.topics = orders.*, \\\nb->a.enabled{equals}true\nx = 1\n"
    (trap,) = parse_properties(text, "f").traps
    assert str(trap) == (
        "line 1: a->b.topics: the backslash at the end of line 1 makes line 2 a part of the value, so"
        " b->a.enabled is not set; remove the backslash"
    )


def test_a_backslash_before_a_comment_or_a_blank_line_is_not_told() -> None:
    assert parse_properties("a.topics = x, \\\n  y.z, \\\n\nb = 1\n", "f").traps == ()


@pytest.mark.parametrize(
    "text",
    [
        'a.sasl.jaas.config = org.apache.PlainLoginModule required \\\n  username="u" \\\n  password="p.q=r";\n',
        "topics = orders.*, \\\n  clicks.*\n",
        "a.key = x \\\n  https://h/a?b.c=d\n",
    ],
)
def test_a_value_over_several_lines_is_no_trap(text: str) -> None:
    assert parse_properties(text, "f").traps == ()
