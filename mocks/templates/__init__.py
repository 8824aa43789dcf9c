"""Texts and values of mocks, compiled once and rendered for a call."""
