"""Every reader of the table takes any bytes: it reads them, or refuses them with an error of its own, within limits."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.limits import LEAST_BYTES, Bloats, Hangs, limited
from tests.fuzz.targets import TARGETS, FuzzTarget

NAMES = sorted(TARGETS)
EDIT = st.tuples(st.integers(0), st.integers(0, 30), st.binary(max_size=10))


def tried(target: FuzzTarget, data: bytes) -> None:
    with limited(len(data), target.least):
        try:
            target.read(data)
        except target.refusals:
            return


@pytest.mark.parametrize("name", NAMES)
def test_its_seeds(name: str) -> None:
    assert TARGETS[name].seeds
    for seed in TARGETS[name].seeds:
        tried(TARGETS[name], seed)


@pytest.mark.parametrize("name", NAMES)
def test_a_seed_with_bytes_changed(name: str) -> None:
    target = TARGETS[name]

    @settings(max_examples=target.examples)
    @given(st.sampled_from(target.seeds), st.lists(EDIT, max_size=4))
    def change(text: bytes, edits: list[tuple[int, int, bytes]]) -> None:
        for at, gone, new in edits:
            place = at % (len(text) + 1)
            text = text[:place] + new + text[place + gone :]
        tried(target, text)

    change()


@pytest.mark.parametrize("name", NAMES)
def test_any_bytes(name: str) -> None:
    @settings(max_examples=TARGETS[name].examples)
    @given(st.binary(max_size=400))
    def read(noise: bytes) -> None:
        tried(TARGETS[name], noise)

    read()


def test_an_input_that_takes_too_much_memory_is_found() -> None:
    with pytest.raises(Bloats, match="for an input of 10"), limited(10):
        bytearray(2 * LEAST_BYTES)


def spin() -> None:
    while True:
        pass


def test_an_input_that_hangs_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.fuzz.limits.CPU_S", 0.01)
    with pytest.raises(Hangs), limited(10):
        spin()
