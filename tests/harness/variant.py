"""Another release than this checkout: its packages, copied to a folder and changed there, then run as usual.

The next release does not exist yet: it is today's packages, every format one version higher, with more fields in each
value. The rule (`engine/core/formats.py`) promises that such a release and today's may follow each other in both
orders.
"""

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

PACKAGES = ("actors", "engine", "policies", "deploy")
FORMATS = (
    "engine/core/position/position.py",
    "engine/core/position/announced_runs.py",
    "engine/core/offset_map/map_blocks.py",
    "engine/state/state.py",
    "engine/state/event_records.py",
)
"""Every module that has a version of its own."""
_VERSION = re.compile(r"^(FORMAT_VERSION|_WHOLE_VERSION) = (\d+)$", re.MULTILINE)

_MORE = {
    "engine/core/position/position.py": """

def _with_more(encode):  # type: ignore[no-untyped-def]
    return lambda position: encode(position)[:-1] + b',"of_a_later_release":"0:1,7:9"}'


encode_value = _with_more(encode_value)
""",
    "engine/core/position/announced_runs.py": """

def _with_more(encode):  # type: ignore[no-untyped-def]
    return lambda one: encode(one) + b"of a later release"


encode_announcement = _with_more(encode_announcement)
""",
    "engine/state/state.py": """

def _with_more(encode):  # type: ignore[no-untyped-def]
    def more(self, key, value):  # type: ignore[no-untyped-def]
        found = encode(self, key, value)
        return found and found[:-1] + b',"of_a_later_release":{"nested":[1,2]}}'

    return more


StateCodec._value = _with_more(StateCodec._value)
""",
    "engine/state/event_records.py": """

def _with_more(encode):  # type: ignore[no-untyped-def]
    def more(self, event, at_ms):  # type: ignore[no-untyped-def]
        key, value = encode(self, event, at_ms)
        return key, value[:-1] + b',"of_a_later_release":null}'

    return more


EventCodec.encode = _with_more(EventCodec.encode)
""",
    "engine/core/offset_map/map_blocks.py": """

def _with_more(encode):  # type: ignore[no-untyped-def]
    return lambda value: encode(value) + b"of a later release"


encode_block, encode_tail = _with_more(encode_block), _with_more(encode_tail)
""",
}
"""Fields and bytes that today's code does not know, in values of each format."""


def write_variant(root: Path, folder: Path, more: Mapping[str, str]) -> Path:
    """Copy the packages of a checkout into a new folder, code put at the end of some files; return the folder."""
    for package in PACKAGES:
        shutil.copytree(root / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    for name, code in more.items():
        with (folder / name).open("a") as file:
            file.write(code)
    return folder


def write_next_release(root: Path, folder: Path) -> Path:
    """Copy the packages of a checkout into a new folder, one format version up; return the folder."""
    write_variant(root, folder, _MORE)
    for name in FORMATS:
        file = folder / name
        text, changed = _VERSION.subn(lambda found: f"{found[1]} = {int(found[2]) + 1}", file.read_text())
        assert changed, f"{name} has no version of its own format"
        file.write_text(text)
    return folder
