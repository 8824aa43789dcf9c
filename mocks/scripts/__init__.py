"""Scripts of dispatchers, evaluated in child processes within limits."""
