"""Decides what answers a call of a mock, and explains it: pure, beside the ports of `model`."""
