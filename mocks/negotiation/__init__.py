"""What a caller wants of an answer: its media type by `Accept`, which one by `Prefer`."""
