"""Where the calls of spaces are kept: in the process, or in Redis."""
