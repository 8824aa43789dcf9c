"""What people who write suites ask for: new suites, one style, and what a new lock changes."""
