"""What a mail server is reached by."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class MailServer:
    host: str = ""
    port: int = 25
    username: str = ""
    password: str = field(default="", repr=False)
    use_tls: bool = False  # STARTTLS
    use_ssl: bool = False  # TLS from the first byte
    sender: str = ""
