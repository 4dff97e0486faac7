"""Fixtures: a fake fleet and a clock for each test."""

import pytest

from tests.unit.actors.fakes import Clock, FakeFleet


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def fleet(clock: Clock) -> FakeFleet:
    return FakeFleet(clock)
