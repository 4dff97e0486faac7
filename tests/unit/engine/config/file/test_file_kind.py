"""Settings written in the format of the file that they belong to."""

from pathlib import Path

import pytest

from engine.config.file.file_kind import worded

YAML, PROPERTIES = Path("mirror.yaml"), Path("mm2.properties")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("enable one, e.g. A->B.enabled = true", "enable one, e.g. A->B.enabled: true"),
        ("convert it to PEM and set ssl.keystore.type=PEM", "convert it to PEM and set ssl.keystore.type: PEM"),
        ("set a.b = 1 and c.d-e = ${file:P:K}", "set a.b: 1 and c.d-e: ${file:P:K}"),
        ('write ...LoginModule required username="u"', 'write ...LoginModule required username="u"'),
        ("host:9092: cannot connect", "host:9092: cannot connect"),
        ("x == y, n = 1", "x == y, n = 1"),
    ],
)
def test_settings_are_written_as_the_file_has_them(text: str, says: str) -> None:
    assert worded(text, YAML) == worded(text, Path("M.YML")) == says
    assert worded(text, PROPERTIES) == text
