"""Values that processes of a mirror send each other: specs, orders, reports, statuses, requests, events."""
