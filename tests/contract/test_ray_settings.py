"""Environment settings of a local Ray: Ray ignores a name that it does not know, so each must be known."""

from pathlib import Path

import pytest
import ray

from actors.ray.connect import UNMINDED, UNWATCHED

RAYLET = Path(ray.__file__).parent / "core/src/ray/raylet/raylet"


@pytest.mark.parametrize("name", [*UNWATCHED, *UNMINDED])
def test_the_pinned_ray_knows_each_setting(name: str) -> None:
    assert name.removeprefix("RAY_").encode() in RAYLET.read_bytes()
