"""`mock serve`: one suite on a port of its own, without Django."""
