"""The pages of docs/tables, each made from what the code declares."""
