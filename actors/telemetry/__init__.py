"""Exports metrics, probes and traces of a mirror: to Prometheus, to probes, and to an OTLP collector.

In: the status and the events of the supervisor, and spans of control-plane work. Out: a port for scrapes and probes,
series and spans for the collector. A port that is taken or a collector that is unreachable never stops the mirror.

`families` is the table of metrics, `collect` turns a status into series, `prometheus` and `otlp` format them,
`exporter` serves and sends them, `health` answers probes, `tracing` sends spans.
"""
