"""Mocks without a framework: API surfaces of suites that answer calls, and `mock serve`."""
