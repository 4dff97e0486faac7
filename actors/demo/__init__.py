"""The demo: real clusters, real load, a live mirror, Spark, and two proofs of its copy."""
