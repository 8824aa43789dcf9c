"""What is asked of the mocks of a space: why a call is answered as it is, calls, state."""
