"""Where records and counters of spaces are kept; implementations of `StateStore`."""
