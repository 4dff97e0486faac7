"""Commands about clusters and files: check, plan, apply, audit, takeover, cluster, demo."""
