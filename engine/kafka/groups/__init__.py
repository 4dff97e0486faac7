"""Consumer groups on real brokers: listed, described and committed for, whichever brokers are away."""
