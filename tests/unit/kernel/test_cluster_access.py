"""What is said when a kubeconfig or its credential lets nobody in (guide: kubernetes, 2)."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernel.cluster_access import ClusterAccess, access_by_values, from_kubeconfig
from kernel.exec_plugin import AccessRefused

SECRET = "only-for-tests-9b2c"
Document = dict[str, Any]
Change = Callable[[Document], object]


def kubeconfig(folder: Path, user: Document, *changes: Change) -> Path:
    """Write a kubeconfig whose context `here` is of this user."""
    document: Document = {
        "current-context": "here",
        "contexts": [
            {"name": "here", "context": {"cluster": "c", "user": "ada"}},
            {"name": "there", "context": {"cluster": "absent", "user": "ada"}},
            {"name": "elsewhere", "context": {"cluster": "c", "user": "bob"}},
        ],
        "clusters": [{"name": "c", "cluster": {"server": "https://cluster.example:6443"}}],
        "users": [{"name": "ada", "user": user}],
    }
    for change in changes:
        change(document)
    path = folder / "config"
    path.write_text(json.dumps(document))
    path.chmod(0o600)
    return path


def refusal_of(path: Path, context: str = "") -> str:
    with pytest.raises(AccessRefused) as refused:
        from_kubeconfig(path, context=context).token()
    assert SECRET not in str(refused.value)
    return str(refused.value)


def token_until(seconds: int) -> str:
    claims = base64.urlsafe_b64encode(json.dumps({"exp": seconds}).encode()).decode().rstrip("=")
    return f"e30.{claims}.{SECRET}"


@pytest.mark.parametrize(
    ("context", "words"),
    [
        ("nowhere", "has no context 'nowhere': it has elsewhere, here, there"),
        ("there", "names the cluster 'absent', which is not in it: it has c"),
        ("elsewhere", "names the user 'bob', which is not in it: it has ada"),
    ],
)
def test_a_name_that_is_not_in_the_kubeconfig_is_said_with_those_that_are(
    tmp_path: Path, context: str, words: str
) -> None:
    assert words in refusal_of(kubeconfig(tmp_path, {"token": SECRET}), context)


def test_without_a_current_context_the_contexts_are_named(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, {"token": SECRET}, lambda it: it.pop("current-context"))

    assert "no current context: name one of elsewhere, here, there" in refusal_of(path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"users: [{SECRET}", "is not valid YAML"),
        ("", "is empty, or no kubeconfig"),
        (SECRET, "is empty, or no kubeconfig"),
    ],
)
def test_a_file_that_is_no_kubeconfig_is_said(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)

    assert words in refusal_of(path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    absent = tmp_path / "absent"
    of_user = kubeconfig(tmp_path, {"tokenFile": str(absent)})

    assert f"{absent} cannot be read: No such file" in refusal_of(absent)
    assert f"{absent} cannot be read: No such file" in refusal_of(of_user)


def test_a_user_without_a_credential_is_named(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, {"username": "ada", "password": SECRET})

    said = refusal_of(path)

    assert said.endswith(
        "the user 'ada' of the kubeconfig has no token, client certificate or exec plug-in"
    )


def test_a_certificate_that_is_none_is_said_without_its_text(tmp_path: Path) -> None:
    pair = {
        f"client-{name}-data": base64.b64encode(SECRET.encode()).decode()
        for name in ("certificate", "key")
    }

    said = refusal_of(kubeconfig(tmp_path, pair))

    assert "the client certificate or key of the user 'ada' of the kubeconfig cannot be" in said


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("#!/bin/sh\nexit 3\n", "the exec plug-in ./get-token ended with code 3: run it as"),
        ("#!/bin/sh\necho hello\n", "./get-token did not print an ExecCredential of client.auth"),
        ("", "the exec plug-in ./get-token is not there: ask the platform team"),
    ],
)
def test_an_exec_plug_in_that_fails_is_named_with_what_to_do(
    tmp_path: Path, program: str, words: str
) -> None:
    if program:
        (tmp_path / "get-token").write_text(program)
        (tmp_path / "get-token").chmod(0o700)
    how = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "./get-token",
        "args": ["--key", SECRET],
        "installHint": "ask the platform team",
    }

    assert words in refusal_of(kubeconfig(tmp_path, {"exec": how}))


def test_a_refused_token_that_has_expired_is_said_with_the_time(tmp_path: Path) -> None:
    token = token_until(1_700_000_000)
    access = from_kubeconfig(kubeconfig(tmp_path, {"token": token}))

    assert access.refusal(access.token()) == (
        "the API server refuses the token of the user 'ada' of the kubeconfig, which expired at "
        "2023-11-14T22:13:20.000Z: put a new one into the file"
    )


@pytest.mark.parametrize("token", ["", SECRET, token_until(99_999_999_999), f"a.{SECRET}.b"])
def test_a_refused_token_without_a_past_end_is_said_without_a_time(token: str) -> None:
    access: ClusterAccess = access_by_values("https://cluster.example", token=token)

    said = access.refusal(token)

    assert said.startswith("the API server refuses the token: set a new one")
    assert "expired" not in said
    assert SECRET not in said
