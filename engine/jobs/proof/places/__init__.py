"""Places of a proof: they read partition logs on executors or in this process, as frames of hashed records."""
