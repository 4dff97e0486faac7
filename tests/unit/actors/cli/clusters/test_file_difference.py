"""`check --diff OTHER`: what another file changes, whatever its format; exit code 5 if anything."""

import json
from pathlib import Path

import pytest

from actors.cli import main

TEXT = """\
clusters = A, B
A.bootstrap.servers = a:1
B.bootstrap.servers = b:1
A->B.enabled = true
A->B.topics = orders
"""
TREE = """\
clusters: {A: {bootstrap.servers: "a:1"}, B: {bootstrap.servers: "b:1"}}
flows:
  A->B: {enabled: true, topics: [orders]}
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "mm2.properties"
    made.write_text(TEXT)
    return made


def compared(path: Path, other: str, suffix: str = ".properties", *more: str) -> int:
    beside = path.with_name(f"other{suffix}")
    beside.write_text(other)
    return main.main(["check", str(path), "--diff", str(beside), *more])


@pytest.mark.parametrize(
    ("other", "suffix"),
    [(TREE, ".yaml"), (f"# a comment\n{TEXT}", ".properties"), (f"{TEXT}tasks.max = 1\n", ".properties")],
)
def test_files_that_mean_the_same(path: Path, other: str, suffix: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert compared(path, other, suffix) == 0
    assert capsys.readouterr().out.endswith("mean the same\n")


def test_a_setting_that_differs_has_its_line(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compared(path, TEXT.replace("= orders", "= clicks")) == 5
    out = capsys.readouterr().out
    assert [word for word in ("A->B", "changed", "A->B.topics", "orders", "clicks") if word not in out] == []


def test_scripts_get_rows(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compared(path, TEXT.replace("= orders", "= clicks"), ".properties", "--json") == 5
    found = json.loads(capsys.readouterr().out)
    assert found["differs"]
    assert [(row["key"], row["running"], row["new"]) for row in found["rows"] if row["key"]] == [
        ("A->B.topics", "orders", "clicks")
    ]


def test_a_file_with_a_mistake_is_bad_input(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compared(path, f"{TEXT}A->B.topcis = x\n") == 2
    assert "other.properties:6" in capsys.readouterr().err


def test_a_key_is_not_explained_while_files_are_compared(path: Path) -> None:
    with pytest.raises(SystemExit):
        main.main(["check", str(path), "--diff", str(path), "--explain", "topics"])
