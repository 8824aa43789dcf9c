"""The plug-ins that read secrets: one module a provider, found by their files."""
