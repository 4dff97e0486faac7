"""Does a kill while a command, or a mirror that has just been started, is at work."""

import time

import psutil

from bench.dr.commands import WatchedCommand
from bench.dr.kills import OF_MIRROR, OF_SOURCE, Kill, Victim
from bench.dr.world import World
from bench.recovery.fronted import FrontedCluster
from bench.recovery.mirror import COPIER, METADATA, SUPERVISOR
from deploy.local.broker import Broker

CUT_S, BROKER_DOWN_S = 3.0, 1.0
_TITLES = {Victim.SUPERVISOR: SUPERVISOR, Victim.METADATA: METADATA, Victim.COPIER: COPIER}


def strike(kill: Kill, command: WatchedCommand, world: World, *, seed: int, restart_mirror: bool) -> str:
    """Wait for the moment, and kill. Returns why nothing was killed; empty: it was. Raises BenchError."""
    moment = kill.moment
    if moment.line and not command.wait_line(moment.line):
        return f"the command ended before {moment.name}"
    command.stay(moment.after_s + kill.delay_s)
    if not command.is_running():
        return "the command had ended"
    if kill.victim is Victim.DRIVER:
        return "" if command.kill() else "the command had ended"
    return hit(kill.victim, world, seed=seed, restart_mirror=restart_mirror)


def hit(victim: Victim, world: World, *, seed: int, restart_mirror: bool) -> str:
    """Kill a process of the mirror, kill a broker, or cut a cluster off. Returns as `strike` does."""
    if victim in OF_MIRROR:
        return _hit_mirror(victim, world, restart=restart_mirror)
    cluster = world.cluster(world.here if victim in OF_SOURCE else world.there)
    if victim in (Victim.SOURCE_CUT, Victim.TARGET_CUT):
        _cut(cluster)
    else:
        _kill_broker(cluster, seed)
    return ""


def _hit_mirror(victim: Victim, world: World, *, restart: bool) -> str:
    if victim is Victim.RUN:
        if not world.kill_mirror():
            return "the mirror had ended"
        if restart:
            world.start_mirror()
        return ""
    process = world.actor(_TITLES[victim])
    if process is None:
        return f"no process {victim.value}"
    try:
        process.kill()
    except psutil.NoSuchProcess:
        return f"the process {victim.value} had ended"
    return ""


def _kill_broker(cluster: FrontedCluster, seed: int) -> None:
    broker: Broker = cluster.brokers[seed % len(cluster.brokers)]
    broker.kill()
    time.sleep(BROKER_DOWN_S)
    cluster.restart(broker)


def _cut(cluster: FrontedCluster) -> None:
    cluster.fronts.cut()
    time.sleep(CUT_S)
    cluster.fronts.mend()
