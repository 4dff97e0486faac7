"""Figures of `start` and `commands` from single runs."""

import os
from pathlib import Path

import pytest

from bench import commands, start
from bench.start import Start


def test_a_kind_of_start_is_told_by_medians_and_every_run() -> None:
    found = start.summary(
        [
            Start(first_output_s=second, running_s=5.0, first_record_s=second * 10, cpu_s=4.0)
            for second in (0.3, 0.1, 0.2)
        ]
    )
    assert (found["first_output_s"], found["running_s"], found["first_record_s"], found["cpu_s"]) == (
        0.2,
        5.0,
        2.0,
        4.0,
    )
    assert [run["first_output_s"] for run in found["runs"]] == [0.3, 0.1, 0.2]


def test_a_command_is_told_by_its_median_and_its_worst() -> None:
    found = commands.summary([0.31, 0.2, 0.25], [0.1, 0.3, 0.2])
    assert found == {"cpu_s": 0.2, "median_s": 0.25, "most_s": 0.31, "all_s": [0.31, 0.2, 0.25]}


def test_files_are_dropped_from_the_page_cache_and_links_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "folder").mkdir()
    file = tmp_path / "folder" / "module.py"
    file.write_text("x = 1")
    (tmp_path / "link").symlink_to("/dev/zero")
    dropped: list[str] = []
    monkeypatch.setattr(
        os, "posix_fadvise", lambda number, *_words: dropped.append(os.readlink(f"/proc/self/fd/{number}"))
    )
    start.forget_files([tmp_path])
    assert dropped == [str(file)]
