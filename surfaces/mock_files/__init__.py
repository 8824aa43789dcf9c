"""The files of `mock/`: metadata of mocks, and their exchanges."""
