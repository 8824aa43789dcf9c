"""Mail, through the server of the platform settings or of EMAIL_URL."""

from __future__ import annotations

from smtplib import SMTPException, SMTPRecipientsRefused

from django.apps import apps
from django.core.mail import EmailMessage, get_connection
from django.utils.module_loading import import_string

from apps.operations import conf
from apps.operations.domain.mail import MailServer
from kernel.errors import PlatformError


class MailUnavailable(PlatformError):
    """No mail server is set up, or it did not take the message now."""

    code = "mail_unavailable"


class RecipientRefused(PlatformError):
    """The mail server will never take a message for this address."""

    code = "mail_unavailable"


def mail_server() -> MailServer | None:
    """Return the server that an app names (`mail_server` of its config), else EMAIL_URL's."""
    named = [getattr(config, "mail_server", None) for config in apps.get_app_configs()]
    for path in filter(None, named):
        found: MailServer | None = import_string(path)()
        if found is not None:
            return found
    return conf.mail_server()


def require_mail_server() -> MailServer:
    """Return the server; raise MailUnavailable, which says what is missing."""
    if (server := mail_server()) is None:
        raise MailUnavailable(
            "sending mail is not set up: neither EMAIL_URL nor notifications.smtp names a server"
        )
    return server


def send_mail(to: str, *, subject: str, text: str) -> None:
    """Hand one message to the server within EMAIL_TIMEOUT (seconds, each step).

    Raise MailUnavailable, RecipientRefused.
    """
    server = require_mail_server()
    connection = get_connection(
        host=server.host,
        port=server.port,
        username=server.username,
        password=server.password,
        use_tls=server.use_tls,
        use_ssl=server.use_ssl,
        timeout=conf.mail_timeout_s(),
    )
    message = EmailMessage(subject, text, server.sender, [to], connection=connection)
    try:
        try:
            message.send()
        finally:  # after a failed sign-in, Django leaves it open
            connection.close()
    except SMTPRecipientsRefused:
        raise RecipientRefused("the mail server refuses this address") from None
    except (OSError, SMTPException) as error:
        raise MailUnavailable(f"the mail server did not take the message: {error}") from None
