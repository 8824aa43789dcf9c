"""How facts look on a page: pure functions from wire dicts to what the templates print."""
