"""Reads how fast a flow and its topics may be fetched, and which topics come first."""

from engine.config.flow_keys import FlowKeys
from engine.config.property_reader import PropertyReader
from engine.config.settings import BANDWIDTH_KEY, PRIORITY_KEY
from policies.traffic import TrafficRules, parse_bandwidth, parse_priorities


def read_traffic(reader: PropertyReader, keys: FlowKeys) -> TrafficRules:
    """Return the limits and classes of a flow. Raises ConfigError."""
    key = keys.flow(BANDWIDTH_KEY)
    try:
        bandwidth = parse_bandwidth(reader.list(key))
    except ValueError as bad:
        right = "write bytes per second for the whole flow, pattern@bytes for topics, e.g. 50000000, logs.*@10000000"
        raise reader.error(key, str(bad), right) from None
    key = keys.flow(PRIORITY_KEY)
    try:
        return TrafficRules(bandwidth, parse_priorities(reader.list(key)))
    except ValueError as bad:
        raise reader.error(key, str(bad), "write pattern@class, ..., e.g. orders.*@high, logs.*@low") from None
