"""The processes of the orchestrator: gRPC and HTTP servers, workers, sweeps."""
