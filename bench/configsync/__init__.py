"""`configsync`: topic configs of many topics kept in step, by us and by MM2: wall time, requests, what is written."""
