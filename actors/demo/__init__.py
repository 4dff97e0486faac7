"""The demo: real clusters, real load, a live mirror, and a proof of its copy."""
