"""Services that a mirror's process runs: the parts of a flow, put together over real clusters.

`runner` composes the copier and the topic service; each other service is a loop or a command of its own (groups,
configs, heartbeats, events, state, failover, translation). In: a configuration. Out: calls for actors and commands.
"""
