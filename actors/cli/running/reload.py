"""`raymirror reload [FILE]`: applies a changed configuration to the running mirror; unchanged flows are not touched.

The command reads and checks the file as `run` does. The supervisor compares it with the running configuration, because
passwords never leave the process that has read them. It reports the difference, and applies it only if the running
configuration is still the compared one.
"""

import argparse
import os
import sys
from pathlib import Path

import msgspec
from rich.table import Table

from actors.cli.common import exits
from actors.cli.common.connect_args import add_place_arguments, mirror_on_ray
from actors.cli.common.flags import add_json_argument, warn
from actors.config import config_ref
from actors.config.checks import prepare, unchecked_flows
from actors.config.difference import ADDED, CHANGED, MIRROR, NEXT_START, REMOVED, UNTOUCHED, ChangeRow, ConfigDifference
from actors.config.reload_errors import CannotReload
from actors.local import session
from actors.local.session import MirrorPlace
from actors.model.messages import ConfigRef
from actors.model.needs import least_cpus, sites_of
from actors.model.status import MirrorStatus
from actors.observability.colours import stdout_console
from actors.ray.mirror import Mirror, refuse_taken, running
from engine.base.errors import MirrorError
from engine.config.config import load_config
from engine.config.file.file_kind import worded
from engine.config.settings import MirrorConfig
from policies.placement.sites import site_resources

_STYLE = {ADDED: "green", REMOVED: "red", CHANGED: "yellow"}


class OtherVersion(MirrorError):
    """The running mirror has another version of raymirror than this command."""

    def __init__(self, theirs: str, ours: str) -> None:
        super().__init__(theirs, ours)
        self.theirs, self.ours = theirs, ours

    def __str__(self) -> str:
        return (
            f"the mirror runs version {self.theirs} and this command is version {self.ours}, so the mirror may read the"
            " file differently; stop the mirror (raymirror stop), then start it with the new file (raymirror run)"
        )


class OtherMirrorsFile(MirrorError):
    """A file is neither the one of the running mirror nor has a flow of it: mirror, its flows, its file, the file."""

    exit_code = exits.NO_MIRROR

    def __init__(self, mirror: str, flows: tuple[str, ...], running: str, given: str) -> None:
        super().__init__(mirror, flows, running, given)
        self.mirror, self.flows, self.running, self.given = mirror, flows, running, given

    def __str__(self) -> str:
        return (
            f"no mirror runs {self.given}: mirror {self.mirror} runs {self.running}, and {self.given} has none of its"
            f" flows ({', '.join(self.flows)}), so all of them would end; to start a mirror of this file: raymirror run"
            f" {self.given}; to replace the flows of {self.mirror} all the same: raymirror reload {self.given}"
            f" --mirror {self.mirror}"
        )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "config",
        nargs="?",
        type=Path,
        metavar="FILE",
        help="the configuration (default: the file that the mirror runs with)",
    )
    parser.add_argument("--dry-run", action="store_true", help="only show the difference; change nothing")
    add_json_argument(parser)
    add_place_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Compare, show, apply.

    Raises NoMirror, OtherMirrorsFile, ConfigError, NotReady, CannotReload, ReloadBusy, OtherVersion.
    """
    with mirror_on_ray(args) as (mirror, place):
        status = mirror.status()
        path = args.config or Path(status.config_path)
        args.config = path  # `main` words errors about the file by it
        if not args.mirror:
            refuse_other_mirrors(path, status, session.short_name(mirror.namespace))
        config, checked = prepare(path, warn)
        for warning in config.warnings:
            warn(f"{path}: {worded(str(warning), path)}")
        asked = Reload(mirror, place, status, path, config, unchecked_flows(config, checked))
        found = asked.compare()
        if args.dry_run or found.refused:
            _show(args, found, done=False)
            asked.refuse(found)
            return exits.OK
        asked.take_over(found)
        _show(args, found, done=True)
    return exits.OK


def refuse_other_mirrors(path: Path, status: MirrorStatus, mirror: str) -> None:
    """Refuse a file that would replace all flows of a mirror that was started from another file.

    Raises OtherMirrorsFile, ConfigError.
    """
    if session.absolute(path) == session.absolute(Path(status.config_path)):
        return
    flows = tuple(flow.flow for flow in status.flows if not flow.deleted)
    if flows and not any(str(flow.name) in flows for flow in load_config(path).flows):
        raise OtherMirrorsFile(mirror, flows, status.config_path, str(path))


def offer(
    args: argparse.Namespace, config: MirrorConfig, unchecked: tuple[str, ...], already: session.AlreadyRunning
) -> int:
    """Show what the file of a second `run` changes in the running mirror, and ask whether to apply it.

    `unchecked`: flows that could not be checked, because a cluster is unreachable.
    Raises what `run` raises.
    """
    place = argparse.Namespace(address=None, mirror=already.namespace)
    with mirror_on_ray(place) as (mirror, found_at):
        asked = Reload(mirror, found_at, mirror.status(), args.config, config, unchecked)
        found = asked.compare()
        name = session.short_name(already.namespace)
        if found.is_none and found.running == found.new:
            said = f"mirror {name} already runs in process {already.pid}, and this file changes nothing"
            print(f"raymirror run: {said}", file=sys.stderr)
            return exits.UNUSABLE
        print(f"mirror {name} already runs in process {already.pid}; this file changes:")
        show(found)
        asked.refuse(found)
        try:
            answer = input("apply this file to the running mirror now? [y/N] ")
        except EOFError:
            answer = ""
        if answer.strip().lower() not in ("y", "yes"):
            print("nothing was changed")
            return exits.UNUSABLE
        asked.take_over(found)
        print(summary(found, done=True))
    return exits.OK


class Reload:
    """One running mirror and one checked file. `unchecked`: flows with an unreachable cluster, so not checked."""

    def __init__(
        self,
        mirror: Mirror,
        place: MirrorPlace,
        status: MirrorStatus,
        path: Path,
        config: MirrorConfig,
        unchecked: tuple[str, ...] = (),
    ) -> None:
        self._unchecked = unchecked
        self._mirror, self._place, self._status, self._config = mirror, place, status, config
        self._ref: ConfigRef = config_ref.refer(path)

    def compare(self) -> ConfigDifference:
        """Return what the file changes, and which changes are refused. Raises OtherVersion, FlowTaken, CannotReload."""
        from actors.ray.launch import code_version

        if self._status.version != code_version():
            raise OtherVersion(self._status.version, code_version())
        others = running(self._mirror.connection)
        others.pop(self._mirror.namespace, None)
        refuse_taken(self._mirror.connection, others, tuple(str(flow.name) for flow in self._config.flows))
        found = self._mirror.compare(self._ref)
        return msgspec.structs.replace(
            found,
            rows=(*found.rows, *self._renamed(found)),
            refused=(*found.refused, *self._no_room(), *self._not_checked(found)),
        )

    def refuse(self, found: ConfigDifference) -> None:
        """Raise CannotReload with every refused change, if there is any."""
        if found.refused:
            raise CannotReload(found.refused)

    def take_over(self, found: ConfigDifference) -> None:
        """Have the supervisor apply it. Raises CannotReload, ReloadBusy, ReloadFailed, MirrorLost."""
        self._mirror.reload(self._ref, found.running)
        if not self._place.pid:  # on a Ray cluster no `run` process updates the state file of this machine
            facts = {"config_path": self._ref.path, "config_digest": self._ref.digest}
            session.note(self._mirror.namespace, 0, os.environ, **facts)

    def _renamed(self, found: ConfigDifference) -> list[ChangeRow]:
        """Report a changed default name: the flows give it, but a running mirror keeps the name of its start."""
        from actors.ray.launch import usual_name

        name, usual = session.short_name(self._mirror.namespace), usual_name(self._config)
        if name == usual or not (found.named(ADDED) or found.named(REMOVED)):
            return []
        key = "name of the mirror, without --name"
        return [ChangeRow(flow=MIRROR, change=CHANGED, key=key, running=name, new=usual, takes_effect=NEXT_START)]

    def _not_checked(self, found: ConfigDifference) -> list[str]:
        """Refuse to add a flow that could not be checked: unlike a start, a reload can be repeated at any time."""
        return [
            f"{flow}: a cluster is unreachable or a right is missing, so nobody checked it; mend that, and reload again"
            for flow in found.named(ADDED)
            if flow in self._unchecked
        ]

    def _no_room(self) -> tuple[str, ...]:
        """Say what does not fit into the mirror's own Ray, which keeps the size of its start."""
        if not self._place.local:
            return ()
        from actors.spark.java import JAVA_RESOURCE

        there, spark = self._mirror.connection.ray.cluster_resources(), self._config.spark
        least = least_cpus(self._config)
        again = "stop the mirror (raymirror stop), then start it with the new file (raymirror run)"
        found = []
        if least > there.get("CPU", 0):
            found.append(
                f"raymirror.copiers, raymirror.spark.executors: this file needs {least} logical CPUs, and the mirror's"
                f" Ray was started with {there.get('CPU', 0):g}; {again}"
            )
        if spark.on and JAVA_RESOURCE not in there:
            found.append(f"raymirror.spark: on, but the mirror's Ray was started without Spark; {again}")
        for site in (site for site in sites_of(self._config) if not site_resources(site).keys() <= there.keys()):
            found.append(f"raymirror.copiers.near: the mirror's Ray was started without site {site}; {again}")
        return tuple(found)


def show(found: ConfigDifference) -> None:
    stdout_console().print(table(found))


def table(found: ConfigDifference) -> Table:
    """Draw the difference: flow by flow, key by key."""
    drawn = Table(box=None, pad_edge=False)
    for name in ("flow", "change", "key", "running", "new", "takes effect"):
        drawn.add_column(name, overflow="fold")
    for row in found.rows:
        style = _STYLE.get(row.change, "")
        drawn.add_row(row.flow, row.change, row.key, row.running, row.new, row.takes_effect, style=style)
    return drawn


def summary(found: ConfigDifference, *, done: bool) -> str:
    """Say in one line what was done, or would be done."""
    if found.is_none:
        rest = ", only the text of the file differs" if found.running != found.new else ""
        return f"no setting differs from the running configuration{rest}: nothing changes"
    counts = [(found.named(change), change) for change in (ADDED, CHANGED, REMOVED, UNTOUCHED)]
    flows = ", ".join(f"{len(names)} {change}" for names, change in counts if names)
    if not done:
        return f"not applied yet; flows: {flows}"
    return f"applied; flows: {flows}; follow it with: raymirror status"


def _show(args: argparse.Namespace, found: ConfigDifference, *, done: bool) -> None:
    if args.json:
        facts = {
            "command": "reload",
            "config": str(args.config),
            "done": done,
            "running": found.running,
            "new": found.new,
            "differs": not found.is_none,
            "rows": found.rows,
            "refused": found.refused,
        }
        print(msgspec.json.encode(facts).decode())
        return
    show(found)
    print(summary(found, done=done))
