"""Bytes logged in an outage: which files and lines count, and when bytes may be missing."""

import json
from pathlib import Path

from bench.recovery.outage import _events, _own_files


def write_log(folder: Path, name: str, *events: str) -> Path:
    file = folder / "state" / "raymirror" / "logs" / "raymirror-bench" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps({"event": event, "text": "t"}) + "\n" for event in events))
    return file


def test_lines_are_counted_by_kind_in_present_and_rotated_files(tmp_path: Path) -> None:
    run = tmp_path / "outage"
    write_log(tmp_path, "supervisor.jsonl", "flow_troubled", "")
    write_log(tmp_path, "supervisor.jsonl.1", "flow_troubled")
    assert _events(run) == {"flow_troubled": 2, "-": 1}


def test_files_of_every_process_count(tmp_path: Path) -> None:
    files = {write_log(tmp_path, name, "x") for name in ("a.jsonl", "b.jsonl", "b.jsonl.1")}
    assert _own_files(tmp_path / "outage") == files
