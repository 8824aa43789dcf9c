"""What contracts answer without a mock: their examples, and samples of their schemas."""
