"""Which other clusters a source topic is copied to, by the configuration."""

from engine.services.dr_preview import fed_too
from policies.model import FlowName
from tests.unit.engine.config_files import mirror

BASE = """\
clusters = A, B, C
A.bootstrap.servers = a1:9092
B.bootstrap.servers = b1:9092
C.bootstrap.servers = c1:9092
A->B.enabled = true
"""


def test_another_flow_feeds_a_third_cluster_if_it_copies_the_topic() -> None:
    config = mirror("A->C.enabled = true\nA->C.topics = orders.*\nC->B.enabled = true\n", base=BASE)
    flow = config.flow(FlowName("A", "B"))
    assert [fed_too(config, flow, topic) for topic in ("orders", "clicks")] == [("C",), ()]
