"""The evaluation of a syntax tree: what must hold at each path, and the values."""
