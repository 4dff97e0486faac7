"""A small process that a local raylet starts in place of the dashboard's agent: it reports that it has no ports.

A raylet starts this agent with or without a dashboard, waits until the agent writes its ports, and ends when it ends.
Without `ray[default]`, Ray's own agent takes 70 MiB to write the same: port -1 for each (`dashboard/agent.py` of 2.60).
This one runs with `python -I -S`, without packages: it imports only modules that Python has already loaded.
"""

import os
import sys
import time

PORTS = ("metrics_agent_port", "metrics_export_port", "dashboard_agent_listen_port")
"""Written as NAME_NODE-ID into the session's folder (`persist_port` of Ray)."""
NONE = "-1"
LOOK_S = 1.0


def main(words: list[str]) -> None:
    """Write that there are no ports, then wait for the raylet's end. `words`: the command line of Ray's agent."""
    raylet = os.getppid()
    said = dict(word.removeprefix("--").split("=", 1) for word in words if word.startswith("--") and "=" in word)
    for name in PORTS:
        _write(f"{said['session-dir']}/{name}_{said['node-id']}")
    while os.getppid() == raylet:
        time.sleep(LOOK_S)


def _write(path: str) -> None:
    """Write a file and rename it: the raylet reads it as soon as it exists."""
    hidden = f"{path}.{os.getpid()}"
    with open(hidden, "w") as file:
        file.write(NONE)
    os.replace(hidden, path)


if __name__ == "__main__":
    main(sys.argv[1:])
