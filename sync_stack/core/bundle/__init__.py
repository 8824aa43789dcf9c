"""The bundle: what it says (`model`), and how it is read from a tree (`validation`)."""
