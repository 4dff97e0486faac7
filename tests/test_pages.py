"""Pages for developers name only files that exist."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BELOW = ("", "engine", "actors", "policies", "deploy", "bench", "bench/recovery", "tests")
LIST = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
NAMES = subprocess.run(LIST, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
PAGES = [ROOT / name for name in NAMES if name != "CHANGELOG.md" and not name.startswith("bench/results/")]
_PATH = re.compile(r"`([\w./-]+\.py)`")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_names_files_that_exist(page: Path) -> None:
    named = _PATH.findall(page.read_text())
    folders = [ROOT / one for one in BELOW] + [page.parent]
    assert [name for name in named if not any((folder / name).exists() for folder in folders)] == []


def test_there_are_pages() -> None:
    assert len(PAGES) > 20
