"""The user who runs a command, for people who read later who did something."""

import getpass
import os


def user_name() -> str:
    """Return the name of the user; in a container a user may have none, but a number."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
