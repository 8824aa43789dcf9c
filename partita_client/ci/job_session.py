"""The session of a job: for its own token, nowhere but in memory, ended with the job."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from partita_client import conf
from partita_client.ci.id_tokens import can_ask_again, fetch_id_token, has_id_token
from partita_client.ci.job import CiJob
from partita_client.ci.job_log import JobLog
from partita_client.ci.plain_text import plain_line
from partita_client.client import Client
from partita_client.errors import ClientError, NotPartita
from partita_client.server_choice import ServerChoice

if TYPE_CHECKING:  # a dictionary by another name: a job does without
    from partita_client.documents import CiSignIn

_SIGN_OUT_S: Final = 5.0
_CLOCKS_DIFFER_S: Final = 60.0
Ask = Callable[[Callable[[], Any], str], Any]  # over absences; the text says what a refusal is


@dataclass(slots=True, kw_only=True)
class JobSession:
    """`audience` is that of the job's token; `ask` asks the server.

    `needed_s`: so long the job may wait for its run.
    """

    choice: ServerChoice
    job: CiJob
    output: JobLog
    audience: str
    ask: Ask
    needed_s: float
    _token: str = field(default="", init=False, repr=False)

    def open_client(self) -> Client:
        """Return a client with the given token, else with a session of the job, else as usual.

        A session that ends is renewed where the job may ask for another token. Raise ClientError.
        """
        choice = self.choice
        is_given = conf.variable("PARTITA_TOKEN") or conf.variable("PARTITA_TOKEN_FILE")
        # a token of a context may be in a keyring, which a job cannot open: it is read if needed
        if (is_given or not has_id_token(self.job)) and (token := choice.token):
            return Client(choice.url, token=token, ca_file=choice.ca_file)
        token = self.sign_in()
        renew = self.sign_in if can_ask_again(self.job) else None
        return Client(choice.url, token=token, ca_file=choice.ca_file, new_token=renew)

    def sign_in(self) -> str:
        """Return the token of a new session."""
        choice = self.choice
        with Client(choice.url, ca_file=choice.ca_file) as client:
            session = self.ask(lambda: self._sign_in_once(client), "does not let this job in")
        try:
            token, person, rule = session["token"], session["launchedBy"], session["rule"]
        except (LookupError, TypeError):
            raise NotPartita(f"{choice.url} answered a sign-in without a session") from None
        self._token = str(token)
        self.output.hide(self._token)
        self.output.line(f"Signed in as {plain_line(person)}, by the rule {plain_line(rule)}.")
        if not can_ask_again(self.job):
            self._warn_of_its_end(str(session.get("expiresAt")))
        return self._token

    def _warn_of_its_end(self, expires_at: str) -> None:
        """Warn where the session ends while the job may still wait: it cannot be renewed."""
        try:
            left_s = datetime.fromisoformat(expires_at).timestamp() - time.time()
        except ValueError:  # an end that only a newer server writes so
            return
        if left_s + _CLOCKS_DIFFER_S < self.needed_s:
            self.output.warn(
                f"the session of this job ends in {max(0.0, left_s / 60):.0f} minutes and cannot "
                f"be renewed, but --timeout is {self.needed_s / 60:.0f}: a run that takes longer "
                "ends the job with 3; an API token in PARTITA_TOKEN lasts longer"
            )

    def _sign_in_once(self, client: Client) -> CiSignIn:
        """Sign in with a token that was not sent before, where the job may ask for another one.

        Each is good once, and one whose answer was lost may have been used.
        """
        id_token = fetch_id_token(self.job, self.audience or self.choice.url)
        self.output.hide(id_token)
        return client.sign_in_ci(id_token)

    @property
    def can_open_again(self) -> bool:
        """Whether another call of this job gets in: a token of its own is good once."""
        return not self._token or can_ask_again(self.job)

    def end(self) -> None:
        """Sign out, unless the token was given; a session that stays ends within the hour."""
        if not self._token:
            return
        url, ca_file = self.choice.url, self.choice.ca_file
        try:
            with Client(url, token=self._token, ca_file=ca_file, timeout_s=_SIGN_OUT_S) as client:
                client.sign_out()
        except ClientError as error:
            self.output.line(f"The session could not be ended: {plain_line(error.detail)}")
