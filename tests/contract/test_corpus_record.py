"""The record of what MM2's classes make of the corpus is that of the jars.

tests/unit/engine/config/test_corpus.py compares raymirror with it.
"""

import json
from typing import Any

import pytest

from tests.harness.mm2_values import RECORD, record_of

pytestmark = pytest.mark.contract


def test_the_record_is_what_mm2s_own_classes_make_of_the_files(java: Any) -> None:
    assert record_of(java) == json.loads(RECORD.read_text()), "python -m tests.harness.mm2_values"
