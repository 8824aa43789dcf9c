"""Configuration from Git into datasources: gateway, orchestrator, watcher."""
