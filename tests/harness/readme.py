"""The commands that README's first mirror tells a reader to type."""

import re
import textwrap
from typing import Final

from tests.harness.shell import ROOT

SECTION: Final = "## The first mirror in five minutes"
_BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)


def first_mirror() -> str:
    """The text of the section."""
    _, _, rest = (ROOT / "README.md").read_text().partition(f"{SECTION}\n")
    return rest.partition("\n## ")[0].partition("\n### ")[0]


def first_mirror_commands() -> list[str]:
    """The commands in its blocks, in order, without their comments."""
    blocks = (textwrap.dedent(text) for _, language, text in _BLOCK.findall(first_mirror()) if not language)
    lines = (line.partition(" #")[0].strip() for block in blocks for line in block.splitlines())
    return [line for line in lines if line]
