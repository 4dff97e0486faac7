"""When a proof asks for all executors of the session; what it finds is in tests/integration."""

from types import SimpleNamespace
from typing import Any

import pytest

from engine.jobs.proof import on_spark, steps
from engine.jobs.proof.model import ProofFailed, ProofOptions
from engine.jobs.proof.snapshot import ProofScope
from engine.jobs.runtime.core_budget import CoreBudget
from policies.model import FlowName
from tests.unit.engine.config_files import mirror


@pytest.mark.parametrize(("offsets", "asks"), [(9, False), (10, True)])
def test_a_large_proof_asks_for_all_executors_until_it_ends(
    offsets: int, asks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    share, told = CoreBudget(streams=True, cores=1, all_cores=4), list[bool]()

    def compare(*_asked: object) -> None:
        told.append(share.has_large_job)
        raise ProofFailed("no cluster", "in this test")

    monkeypatch.setattr(steps, "take_snapshot", lambda *_: SimpleNamespace(lanes=()))
    monkeypatch.setattr(steps, "offsets_of", lambda _: offsets)
    monkeypatch.setattr(steps, "compare", compare)
    monkeypatch.setattr(on_spark, "SparkPlace", lambda *_: None)
    asked = ProofOptions(flow=FlowName("A", "B"), large_offsets=10)
    no_spark: Any = None
    with pytest.raises(ProofFailed):
        on_spark.prove(no_spark, asked, mirror(), ProofScope({}), share=share)
    assert told == [asks]
    assert not share.has_large_job
