"""The command `partita` over HTTP: nouns with verbs, each a module that is loaded when typed."""
