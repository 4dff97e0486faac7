"""raymirror as its users start it: `raymirror run` on local Ray."""

import sys
from collections.abc import Mapping

from bench.systems.launch import Job, Launch, write_properties


def launch(job: Job, more: Mapping[str, str] | None = None, *, environment: Mapping[str, str] | None = None) -> Launch:
    """Supervisor, Ray's daemons and copiers descend from this command; Ray calls a copier's process `ray::Copier`."""
    file = write_properties(job, more or {})
    return Launch(
        command=(sys.executable, "-m", "actors", "run", str(file)),
        # Its own mirror, on its own Ray, whatever else runs on the machine.
        environment={"XDG_STATE_HOME": str(job.folder / "state"), "RAY_ADDRESS": "", **(environment or {})},
        copier_mark="ray::Copier",
    )


def launch_pure(job: Job, more: Mapping[str, str] | None = None) -> Launch:
    """The same with the native module switched off; local Ray's processes inherit the variable."""
    return launch(job, more, environment={"RAYMIRROR_NATIVE": "off"})


def launch_eos(job: Job) -> Launch:
    """The same with `exactly.once.source.support`, which MM2 reads at the target cluster's level."""
    return launch(job, {"target.exactly.once.source.support": "enabled"})
