"""What an operator confirms with `--make-anew`."""

import pytest

from engine.flow.failback.counting import FailbackWish, _topic_reasons
from engine.flow.surveys.separation_survey import SurveyedPartition
from policies.dr.failback import FailbackChoice
from policies.dr.separation import LogBounds, Separation
from policies.model import LaneName, TopicPartition

LANE = TopicPartition("t", 0)
LOG = LogBounds(start=0, end=9, stable_end=9)


@pytest.mark.parametrize(("epoch_end", "is_doubted"), [(-1, True), (9, False), (5, False)])
def test_a_source_that_may_have_other_records_says_so_before_it_is_deleted(epoch_end: int, is_doubted: bool) -> None:
    found = Separation(
        lane=LaneName(LANE, LANE), source=LOG, target=LOG, source_next=9, target_next=9, epoch_end=epoch_end
    )
    asked = FailbackWish(choice=FailbackChoice.DISCARD, exports=True)
    (reason,) = _topic_reasons([SurveyedPartition(separation=found)], {"t": 100}, asked)
    assert ("other ones in their place are neither counted nor exported" in reason.why) is is_doubted
