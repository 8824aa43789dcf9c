"""The data plane: what answers calls of mocks in a server, without a framework."""
