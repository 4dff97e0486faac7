"""Services of a flow: builds the parts of a flow over real clusters, for actors and commands.

`runner` builds the copier and the topic service. Each other module builds a loop or a command (groups, configs,
heartbeats, events, state, failover, translation). Input: a configuration. Output: objects for actors and commands.
"""
