"""Pages: parse, read, render."""
