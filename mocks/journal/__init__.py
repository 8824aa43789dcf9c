"""Where the calls of spaces are kept; implementations of `Journal`."""
