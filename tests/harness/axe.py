"""axe-core, which finds what people with impairments cannot use. It is fetched from the npm registry for a test.

It is under the MPL 2.0 and stays outside of this repository.
"""

import hashlib
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Final

from tests.harness.browser import Tab

VERSION: Final = "4.14.1"
SHA256: Final = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"
"""Of package/axe.min.js."""
NO_AXE: Final = f"axe-core {VERSION} cannot be fetched here: npm is missing, or has no registry"
_DEADLINE_S: Final = 120.0
_RUN: Final = """axe.run(document, {
  runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'],
  resultTypes: ['violations'],
}).then(told => told.violations
  .filter(one => one.impact === 'serious' || one.impact === 'critical')
  .map(({id, help, nodes}) =>
    [id, help, ...nodes.slice(0, 3).map(node => `${node.target} ${node.failureSummary}`)].join('; '))
)"""


def axe_source(folder: Path) -> str | None:
    """Return the script; None if it cannot be fetched. Raises ValueError if it is not what it should be."""
    npm = shutil.which("npm")
    if npm is None:
        return None
    words = [npm, "pack", "--silent", f"axe-core@{VERSION}", "--pack-destination", str(folder)]
    try:
        subprocess.run(words, check=True, capture_output=True, timeout=_DEADLINE_S, cwd=folder)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        return None
    with tarfile.open(folder / f"axe-core-{VERSION}.tgz") as package:
        member = package.extractfile("package/axe.min.js")
        assert member is not None
        data = member.read()
    if (found := hashlib.sha256(data).hexdigest()) != SHA256:
        raise ValueError(f"axe.min.js has the SHA-256 {found}, not {SHA256}")
    return data.decode()


async def serious_findings(tab: Tab) -> list[str]:
    """Return what axe calls serious or critical on the present page."""
    found: list[str] = await tab.value(_RUN)
    return found
