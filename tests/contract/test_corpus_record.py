"""The record of what MM2's classes make of the corpus is that of the jars.

tests/unit/engine/config/test_corpus.py compares raymirror with it.
"""

import json
from typing import Any

import pytest

from tests.harness.mm2_values import CORPUS, RECORD, record_of, recorded, values_of

pytestmark = pytest.mark.contract


@pytest.mark.parametrize("name", ["kafka-sample", "trap-login-of-one-client", "trap-protocol-unknown"])
def test_a_file_of_the_record_is_what_mm2s_own_classes_make_of_it(java: Any, name: str) -> None:
    assert values_of(java, CORPUS / f"{name}.properties") == recorded()[name]


@pytest.mark.full  # thousands of values, each asked of Java
def test_the_record_is_what_mm2s_own_classes_make_of_the_files(java: Any) -> None:
    assert record_of(java) == json.loads(RECORD.read_text()), "python -m tests.harness.mm2_values"
