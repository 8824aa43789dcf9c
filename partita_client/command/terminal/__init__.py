"""A terminal of this machine that types into a shell of a run, over a WebSocket."""
