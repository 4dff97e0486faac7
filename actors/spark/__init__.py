"""Spark on the mirror's Ray cluster: one host actor with one RayDP session, managed by the supervisor.

`host` and `session` run in the host's own process; `service` decides, without Ray, when a host runs and what it runs;
`hosts` implements its ports on Ray. Copying needs nothing of this package.
"""
