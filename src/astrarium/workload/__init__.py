"""Where the work comes from: traces, and later models with their parallelism."""
