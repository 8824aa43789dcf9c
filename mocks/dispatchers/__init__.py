"""Dispatchers: one module each, which registers how it picks an example."""
