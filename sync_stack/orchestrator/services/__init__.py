"""Use cases of the orchestrator: accept deliveries, trigger syncs, execute, sweep."""
