"""The formats of contracts: a module for each reads files of `api/` into `Contract`."""
