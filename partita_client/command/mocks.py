"""`mock`: the simulated APIs of suites on a server; the other verbs work on files."""

from __future__ import annotations

from typing import Final

from partita_client.command import mock_calls, mock_spaces
from partita_client.command.parser import CommandNoun

NOUN: Final = CommandNoun(
    name="mock",
    text="Explain, verify, look at and reset the simulated APIs of suites on a server; "
    "serve, import,\nrecord, lint and schema work on files.",
    verbs=(*mock_calls.VERBS, *mock_spaces.VERBS),
    file_verbs=("serve", "import", "record", "lint", "schema"),
    examples="""\
  partita mock explain shop shop GET '/goods?q=ea'
  partita mock explain shop shop POST /orders -H 'X-Trace: 1' -d '{"apple": 2}'
  partita mock explain shop payments POST Capture -d '{"order": 1}' --run run-0123456789ab
  partita mock verify shop --method POST --path /orders --count 2 --when body:card.type=visa
  partita mock verify shop --run run-0123456789ab --unmatched --count 0
  partita mock state shop --run run-0123456789ab
  partita mock state shop --key order-1 --set status=paid       as if a call had set it
  partita mock journal shop --run run-0123456789ab --outcome no_match
  partita mock journal shop --follow                calls as they come
  partita mock reset shop                           records and counters, not the calls""",
)
