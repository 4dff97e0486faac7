"""Real Kafka clusters on this machine, for the demo, the tests and the benchmarks."""
