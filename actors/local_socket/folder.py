"""The folder of the sockets of this user's mirrors, and a check of which user is at the other end of a connection.

It is in the folder for temporary files and not in `$XDG_RUNTIME_DIR`: logind removes that when its user logs out, while
a mirror continues. Another user may create a folder of that name first. So raymirror uses the folder only if it belongs
to this user and no other user may enter it.
"""

import contextlib
import os
import socket
import stat
import struct
import tempfile
from pathlib import Path
from typing import Final

from engine.base.errors import MirrorError

LONGEST_PATH: Final = 107
"""Most bytes of a Unix socket's path: `sun_path` has 108 bytes (unix(7)), and the last one is zero."""
SUFFIX: Final = ".sock"
_NAME_BYTES: Final = 80
"""Most bytes of a path after the folder for temporary files: socket folder, instance id, process id."""
_CREDENTIALS: Final = struct.Struct("3i")  # struct ucred: pid, uid, gid (unix(7))


class UnsafeFolder(MirrorError):
    """The folder of the sockets is not one that only this user may enter."""

    def __init__(self, folder: str, why: str) -> None:
        super().__init__(folder, why)
        self.folder, self.why = folder, why

    def __str__(self) -> str:
        return f"{self.folder} {self.why}: no socket is used there; it must be a folder of this user with mode 0700"


def socket_folder(base: str | None = None) -> Path:
    """Return the folder of this user's sockets, below the folder for temporary files or below `base`."""
    root = tempfile.gettempdir() if base is None else base
    short = len(os.fsencode(root)) + _NAME_BYTES <= LONGEST_PATH
    return Path(root if short else "/tmp") / f"raymirror-{os.geteuid()}"


def make_folder(folder: Path) -> None:
    """Create the folder, or check that the existing one is safe. Raises UnsafeFolder, OSError."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    refuse_unsafe(folder)


def refuse_unsafe(folder: Path) -> None:
    """Raise UnsafeFolder if another user may put sockets into the folder; OSError if it does not exist."""
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise UnsafeFolder(str(folder), "is no folder")
    if found.st_uid != os.geteuid():
        raise UnsafeFolder(str(folder), f"belongs to user {found.st_uid}")
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise UnsafeFolder(str(folder), f"has mode {stat.S_IMODE(found.st_mode):04o}")


def is_of_this_user(connection: socket.socket) -> bool:
    """Whether the process at the other end of a connection runs as this user."""
    told = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, uid, _ = _CREDENTIALS.unpack(told)
    return bool(uid == os.geteuid())


def remove_dead(folder: Path) -> None:
    """Remove sockets that no process listens on: their mirrors were killed, or the machine went down."""
    for path in folder.glob(f"*{SUFFIX}"):
        with socket.socket(socket.AF_UNIX) as probe, contextlib.suppress(FileNotFoundError, BlockingIOError):
            probe.setblocking(False)
            try:
                probe.connect(str(path))
            except ConnectionRefusedError:
                path.unlink()
