"""Mirrors over a fake fleet, prepared for tests."""

from actors.control.ports import CopierVitals
from actors.control.supervisor import Supervisor
from tests.unit.actors.fakes import Clock, FakeFleet, lanes, make


def started(fleet: FakeFleet, clock: Clock, copiers: int = 1, highest_epoch: int = 0) -> Supervisor:
    """Bring a mirror of two topics to the point where everything is assigned."""
    supervisor = make(fleet, clock, copiers)
    fleet.discover(*lanes("a", 2), *lanes("b", 1), highest_epoch=highest_epoch)
    supervisor.step()
    for copier in fleet.copiers:
        copier.life = CopierVitals(state="ready")
    supervisor.step()
    supervisor.step()
    return supervisor


def advance(supervisor: Supervisor, clock: Clock, seconds: int) -> None:
    """Let time pass, step by step."""
    for _ in range(seconds):
        clock.seconds += 1
        supervisor.step()


def adopt(fleet: FakeFleet, clock: Clock, copiers: int = 1, fingerprint: str = "r1") -> Supervisor:
    """Begin a second supervisor over the copiers of the first."""
    clock.seconds += 1
    second = FakeFleet(clock)
    second.left = [copier for copier in fleet.copiers if copier.life.state == "ready"]
    second.answers = dict(fleet.answers)
    fleet.retired, fleet.copiers = second.retired, second.copiers
    return make(second, clock, copiers, fingerprint)
