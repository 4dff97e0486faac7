"""The Spark of a running mirror, as a command finds it."""

import argparse
from pathlib import Path
from typing import Any

import pytest

from actors.cli.common.lent_spark import lent_spark
from actors.jobs.remote_spark import NoSpark
from actors.local.session import NoMirror


def place(folder: Path, **words: Any) -> argparse.Namespace:
    path = folder / "mm2.properties"
    path.write_text("clusters = A, B\n")
    return argparse.Namespace(config=path, **{"address": None, "mirror": None, **words})


def test_without_a_mirror_of_this_file_none_is_lent(tmp_path: Path) -> None:
    with pytest.raises(NoSpark, match="no mirror on this machine runs with this file"), lent_spark(place(tmp_path)):
        pass


def test_a_mirror_that_was_asked_for_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(NoMirror), lent_spark(place(tmp_path, mirror="x")):
        pass
