"""Finds the configuration file of the mirror that runs on this machine, or was started from it."""

import os
from pathlib import Path

from actors.local import session


def running_config(name: str | None) -> Path | None:
    """Return the file of the named or only mirror, None if there is none. Raises SeveralMirrors."""
    states = session.living(os.environ, name)
    if len(states) > 1:
        raise session.SeveralMirrors(tuple(session.short_name(state.namespace) for state in states))
    return Path(states[0].config_path) if states else None
