"""Hypothesis without a deadline: an example may be slow on a busy machine without being wrong. Both ways of a batch."""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from engine.wire import native

settings.register_profile("wire", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("wire")


@pytest.fixture(scope="module", params=["pure", "native"])
def way(request: pytest.FixtureRequest) -> Iterator[str]:
    """The tests of a module on the Python way and, where it was built, on the compiled one."""
    if request.param == "native" and native.module is None:
        pytest.skip(native.in_use())
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "pure":
            patch.setattr(native, "module", None)
        yield request.param
