"""The orchestrator: tasks, ledger, leases, sweeps; gRPC in, HTTP for those who ask."""
