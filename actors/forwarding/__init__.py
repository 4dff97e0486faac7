"""Opens the mirror's HTTP port on the other Ray nodes, and forwards its connections to the supervisor's server.

In: connections, and the place of that server (`LeaderPlace`), which the supervisor says again and again. Out: the same
bytes to that server and back; 409 while there is none.

`forwarder` listens and forwards, `forwarder_actor` is its process, `forwarders` starts and ends these in the
supervisor's process.
"""
