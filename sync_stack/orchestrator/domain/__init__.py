"""Rules and values of the orchestrator that know no framework."""
