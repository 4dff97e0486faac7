"""Spark on the mirror's Ray cluster: one host actor with one RayDP session, kept by the supervisor.

`host` and `session` are the host's own process; `service` decides when there is a host and what it runs, without Ray;
`hosts` fills its ports. Nothing here is needed for copying.
"""
