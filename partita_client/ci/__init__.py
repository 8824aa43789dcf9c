"""A job of a CI system that launches a run, waits for it and reports: `partita run launch --ci`."""
