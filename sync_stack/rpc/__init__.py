"""How the processes talk: channels, TLS, metadata; `gen` is made from proto/ by `make proto`."""
