"""Today's release and one a format version higher take turns under load: each record is there exactly once."""

import contextlib
from pathlib import Path

import pytest

from bench.recovery.opening import Size
from bench.recovery.stage import Stage, StageKind
from bench.recovery.upgrade import HOWS, take_turns
from tests.harness.shell import ROOT
from tests.harness.variant import write_next_release

pytestmark = [pytest.mark.fault, pytest.mark.full, pytest.mark.ray]


def test_releases_take_turns_under_load(tmp_path: Path) -> None:
    following = write_next_release(ROOT, tmp_path / "next")
    folder = tmp_path / "upgrade"
    folder.mkdir()
    with contextlib.closing(Stage(StageKind(target_brokers=1), tmp_path / "clusters")) as stage:
        found = take_turns(stage, Size(partitions=8, per_s=1000), folder, following, rounds=1)
    assert (found["lost"], found["duplicated"], found["reordered"], found["notes"]) == (0, 0, 0, [])
    assert found["records"] == found["sent"]
    assert len(found["turns"]) == 2 * len(HOWS)
    assert len(found["positions_by_format"]) == 2, "both have written"
