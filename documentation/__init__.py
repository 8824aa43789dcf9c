"""The documentation site: docs/ as HTML and Markdown, and the reference tables made from the code.

Used by `make docs`, `make reference` and the tests; the server only serves what was built.
"""
