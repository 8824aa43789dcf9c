"""One attempt at a task: read Git, plan, write, verify, record (contract 4.4, 4.7, 4.8)."""
