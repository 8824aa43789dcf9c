"""What suites import and load: how a name becomes a suite or a module, and how a lock pins it."""
