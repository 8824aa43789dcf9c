"""Pure functions from wire values to the values in templates."""
