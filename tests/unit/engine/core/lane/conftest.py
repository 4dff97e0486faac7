"""Lanes that merge batches are tested on both ways of a batch."""

from tests.unit.engine.wire.conftest import way as way
