"""Mocks of Partita as a package of their own: `partita-mock`, and a client of what it serves.

    from partita_mock.client import MockClient

What the program imports lies in `packages/` of the installed package
(docs/decisions/0089-mocks-as-a-package-of-their-own.md). An installed Partita has the client, too.
"""
