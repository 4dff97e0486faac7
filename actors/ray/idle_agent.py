"""The process that a raylet of our own has in the place of the dashboard's agent: it says that there is none.

A raylet starts this agent whether there is a dashboard or not, waits for the ports that it writes down, and ends when
it ends. Ray's own takes 70 MiB to say the same where `ray[default]` is missing: port -1 for each (`dashboard/agent.py`
of 2.60). Started with `python -I -S`, without packages: it imports nothing that Python has not loaded already.
"""

import os
import sys
import time

PORTS = ("metrics_agent_port", "metrics_export_port", "dashboard_agent_listen_port")
"""Written as NAME_NODE-ID into the session's folder (`persist_port` of Ray)."""
NONE = "-1"
LOOK_S = 1.0


def main(words: list[str]) -> None:
    """Note that there are no ports, then wait for the raylet's end. `words`: the command line of Ray's agent."""
    raylet = os.getppid()
    said = dict(word.removeprefix("--").split("=", 1) for word in words if word.startswith("--") and "=" in word)
    for name in PORTS:
        _write(f"{said['session-dir']}/{name}_{said['node-id']}")
    while os.getppid() == raylet:
        time.sleep(LOOK_S)


def _write(path: str) -> None:
    """Have a file appear whole: the raylet reads it as soon as it is there."""
    hidden = f"{path}.{os.getpid()}"
    with open(hidden, "w") as file:
        file.write(NONE)
    os.replace(hidden, path)


if __name__ == "__main__":
    main(sys.argv[1:])
