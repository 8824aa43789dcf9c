"""The text of Starlark files: tokens, and the one style that they are written in."""
