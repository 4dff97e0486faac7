"""Stores a mirror's latest specification in Ray's control store: storing it is the commit point of a reload.

Ray restarts a dead supervisor with the specification that it was first started with. So a reload writes the whole of
the new specification into Ray's control store, in one put, before anything follows it. A supervisor that starts after
that put uses only the new one, a supervisor that starts before it only the old one. The key is the actor's id, which a
restart keeps and another supervisor does not have.
"""

import ray
from ray.experimental.internal_kv import _internal_kv_del, _internal_kv_get, _internal_kv_put

PLACE = b"raymirror-reloaded"


def kept_spec() -> bytes | None:
    """Return the last specification that this supervisor stored, None if it was never reloaded. Blocks."""
    return _internal_kv_get(_key(), namespace=PLACE) if ray.is_initialized() else None


def keep_spec(spec: bytes) -> None:
    """Store a specification: from now on this supervisor starts with it. Blocks; raises Ray's error if it fails."""
    _internal_kv_put(_key(), spec, overwrite=True, namespace=PLACE)


def forget_spec() -> None:
    """Remove the stored specification: the mirror has ended. Blocks."""
    if ray.is_initialized():
        _internal_kv_del(_key(), namespace=PLACE)


def _key() -> bytes:
    return str(ray.get_runtime_context().get_actor_id()).encode()
