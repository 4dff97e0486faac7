"""Run-time and deployment parts that know neither the engine nor Ray."""
