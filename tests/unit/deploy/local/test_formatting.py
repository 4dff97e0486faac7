"""A broker's folder is formatted by the tool once, and then from what it wrote."""

from pathlib import Path

import pytest

from deploy.local import formatting


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    folder = tmp_path / "cache"
    folder.mkdir()
    monkeypatch.setattr(formatting, "cache_folder", lambda: folder)
    return folder


@pytest.fixture
def by_the_tool(tmp_path: Path) -> Path:
    """What stands for a folder that Kafka's tool has formatted."""
    folder = tmp_path / "first"
    folder.mkdir()
    (folder / "bootstrap.checkpoint").write_bytes(b"features")
    (folder / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=1\n")
    return folder


def test_the_first_folder_is_left_to_the_tool(cache: Path, tmp_path: Path) -> None:
    assert not formatting.format_as_before(tmp_path / "data", "c", 1)
    assert not (tmp_path / "data").exists()


def test_the_next_ones_have_its_checkpoint_and_names_of_their_own(
    cache: Path, by_the_tool: Path, tmp_path: Path
) -> None:
    formatting.keep_checkpoint(by_the_tool)
    made = {}
    for node_id in (1, 2):
        folder = tmp_path / str(node_id)
        assert formatting.format_as_before(folder, "cluster", node_id)
        assert (folder / "bootstrap.checkpoint").read_bytes() == b"features"
        made[node_id] = dict(line.split("=", 1) for line in (folder / "meta.properties").read_text().splitlines())
    assert {one.pop("directory.id") for one in made.values()} not in (set(), {""})
    assert made == {n: {"version": "1", "cluster.id": "cluster", "node.id": str(n)} for n in (1, 2)}


def test_a_formatted_folder_stays_as_it_is(cache: Path, by_the_tool: Path) -> None:
    before = (by_the_tool / "meta.properties").read_text()
    assert formatting.format_as_before(by_the_tool, "other", 7)
    assert (by_the_tool / "meta.properties").read_text() == before


def test_one_checkpoint_is_kept_and_no_part_of_it_is_left(cache: Path, by_the_tool: Path) -> None:
    formatting.keep_checkpoint(by_the_tool)
    (by_the_tool / "bootstrap.checkpoint").write_bytes(b"others")
    formatting.keep_checkpoint(by_the_tool)
    assert [one.read_bytes() for one in cache.iterdir()] == [b"features"]


def test_ids_are_what_kafka_takes() -> None:
    ids = {formatting.new_kafka_id() for _ in range(200)}
    assert len(ids) == 200
    assert all(len(one) == 22 and not one.startswith("-") for one in ids)
