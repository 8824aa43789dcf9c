"""The processes of the orchestrator: gRPC and HTTP servers, execution, sweeps."""
