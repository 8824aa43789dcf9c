"""The Django project: settings, routes, entry points and the wiring between apps."""
