"""`configsync`: config sync of many topics, by raymirror and by MM2: wall time, requests, written configs."""
