"""HTTP to targets outside: guarded for fallbacks, recording for `mock record`."""
