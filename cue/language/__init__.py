"""The text of CUE files, up to the syntax tree."""
