"""The bench `priority`: the latency of a hot topic beside a bulk topic that has a backlog."""
