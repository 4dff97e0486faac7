"""The supervisor's Unix socket for commands on its own machine: they need no Ray driver.

`folder` says where sockets are and who may use them, `frames` defines the messages, `server` is the supervisor's side,
`client` the command's side. This package does not import Ray. A command that cannot reach a socket asks through Ray.
"""
