"""The error when a Ray cluster has another version than this process."""

import os
from pathlib import Path

import pytest

from actors.ray.connect import (
    OWNER,
    OtherRelease,
    import_ray,
    mark_session,
    refuse_other_release,
    remove_old_sessions,
)

# as `ray._private.utils.check_version_info` (2.60) writes it
MESSAGE = """Version mismatch: The cluster was started with:
    Ray: 2.59.1
    Python: 3.12.4
This process on node 127.0.0.1 was started with:
    Ray: 2.60.0
    Python: 3.11.9
"""


def test_another_release_is_named_with_ours() -> None:
    with pytest.raises(OtherRelease) as refused:
        refuse_other_release("head:6379", MESSAGE)
    assert "head:6379 runs Ray 2.59.1, Python 3.12.4" in str(refused.value)
    assert "this process Ray 2.60.0, Python 3.11.9" in str(refused.value)


def test_other_troubles_are_not_about_releases() -> None:
    refuse_other_release("head:6379", "Failed to connect to GCS")


def test_our_ray_words_it_so() -> None:
    """Ray checks the version of this process against itself: its words are the ones we read."""
    from ray._private import utils

    with pytest.raises(RuntimeError) as mismatch:
        utils.check_version_info({"ray_version": "0.1", "python_version": "2.7.18"}, "node 127.0.0.1")
    with pytest.raises(OtherRelease, match=r"runs Ray 0\.1, Python 2\.7\.18"):
        refuse_other_release("head:6379", str(mismatch.value))


def test_what_ray_tells_a_driver_is_not_in_the_answer_of_a_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `listen_error_messages` of Ray (2.60) tells it: by the name in its module, and for standard output."""
    from ray._private import worker

    monkeypatch.setattr(worker, "print_to_stdstream", worker.print_to_stdstream)
    monkeypatch.setattr(os, "environ", dict(os.environ))
    assert "print_to_stdstream" in worker.listen_error_messages.__code__.co_names
    for _ in range(2):  # a process may connect again
        import_ray(token=False)
    worker.print_to_stdstream({"lines": ["a node is gone"], "pid": "raylet", "is_err": False}, ignore_prefix=False)
    out, err = capsys.readouterr()
    assert (out, err.count("a node is gone")) == ("", 1)


def test_folders_of_dead_processes_go_but_the_newest(tmp_path: Path) -> None:
    for number, owner in enumerate(["999999999 1", "999999999 2", "999999999 3"]):
        folder = tmp_path / f"ray-dead{number}"
        folder.mkdir()
        (folder / OWNER).write_text(owner)
        os.utime(folder, (1000 + number, 1000 + number))
    for name in ("ray-foreign", "ray-ours", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "ray-foreign" / OWNER).write_text("not two numbers")
    mark_session(tmp_path / "ray-ours")
    remove_old_sessions(tmp_path)
    assert sorted(folder.name for folder in tmp_path.iterdir()) == ["other", "ray-dead2", "ray-foreign", "ray-ours"]
