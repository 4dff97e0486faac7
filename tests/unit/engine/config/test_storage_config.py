"""The storage key: refused if it names no place that every node can see."""

import pytest

from engine.base.errors import ConfigError
from engine.config.storage import Storage
from tests.unit.engine.config_files import mirror


def test_a_storage_is_read_and_none_is_none() -> None:
    assert mirror().storage is None
    assert mirror("raymirror.storage = s3a://bucket/mirror/\n").storage == Storage("s3a://bucket/mirror")


def test_what_is_no_storage_is_refused_by_file_line_and_key() -> None:
    with pytest.raises(ConfigError, match=r"mm2\.properties:5.*raymirror\.storage.*write file:/var/x"):
        mirror("raymirror.storage = /var/x\n")
