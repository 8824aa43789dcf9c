"""The webhook gateway: takes deliveries of Git platforms, proves them, hands them on by gRPC."""
