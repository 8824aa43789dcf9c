"""The evaluations of the suites of this process, each made once per content."""
