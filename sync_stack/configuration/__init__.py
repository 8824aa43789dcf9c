"""From a bundle file to a Bundle in use: loading, reloading, secrets, logging."""
