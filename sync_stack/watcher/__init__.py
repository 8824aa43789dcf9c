"""The drift watcher: live values against the ledger, and heals where rules ask for them."""
