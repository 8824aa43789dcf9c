"""Hostile archives, manifests and registries: each refused with its code, nothing written.

Every row is pulled by `pull` from a server on this machine.
"""

from __future__ import annotations

import gzip
import json
import os
import socket
import tarfile
import threading
import time
from collections.abc import Callable
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from apps.oci import api
from apps.oci.models import LayerPart, StoredPackage
from apps.oci.services import packages, registry_client, registry_session
from kernel.addresses import AddressKind, AddressPolicy
from tests.apps.oci.conftest import entry as settings_entry
from tests.support import scripted_registry
from tests.support.scripted_registry import (
    LAYER,
    OCI_MANIFEST,
    Reply,
    ScriptedRegistry,
    archive,
    digest_of,
    encoded,
    entry,
    tar,
)

pytestmark = pytest.mark.django_db
STAR = ("suite.star", b"# a suite\n")
GOOD = archive(STAR)


def sized(name: str, size: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size = size
    return info


def renamed(raw: bytes, old: bytes, new: bytes) -> bytes:
    """A tar whose first header is changed, with its checksum."""
    header = bytearray(raw[:512].replace(old, new))
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return gzip.compress(bytes(header) + raw[512:], mtime=0)


def sparse_in_pax() -> bytes:
    return archive(entry("suite.star", tarfile.REGTYPE, **{"GNU.sparse.map": "0,1"}))


ARCHIVES: dict[str, tuple[str, Callable[[], bytes]]] = {
    "absolute path": ("path_absolute", lambda: archive(("/etc/cron.d/evil", b"x"))),
    "drive letter": ("path_absolute", lambda: archive(("C:evil", b"x"))),
    "parent folder": ("path_traversal", lambda: archive(STAR, ("../evil", b"x"))),
    "parent folder within": ("path_traversal", lambda: archive(STAR, ("a/../../evil", b"x"))),
    "parent folder behind ./": ("path_traversal", lambda: archive(("./../evil", b"x"))),
    "folder outside": ("path_traversal", lambda: archive(entry("../evil/", tarfile.DIRTYPE))),
    "parent folder by pax": (
        "path_traversal",
        lambda: archive(entry("good", tarfile.REGTYPE, path="../evil")),
    ),
    "parent folder by a long name": (
        "path_traversal",
        lambda: archive(("../" + "e" * 200, b"x"), form=tarfile.GNU_FORMAT),
    ),
    "empty segment": ("path_invalid", lambda: archive(("a//evil", b"x"))),
    "dot segment": ("path_invalid", lambda: archive(("a/./evil", b"x"))),
    "folders in folders": ("path_invalid", lambda: archive(("a/" * 33 + "evil", b"x"))),
    "backslash": ("path_invalid", lambda: archive(("a\\..\\evil", b"x"))),
    "control character": ("path_invalid", lambda: archive(("a\nevil", b"x"))),
    "path of 2,000 characters": ("path_invalid", lambda: archive(("e" * 2000, b"x"))),
    "name that is not UTF-8": (
        "path_invalid",
        lambda: renamed(tar(("name", b"x"), form=tarfile.USTAR_FORMAT), b"name", b"n\xff\xfee"),
    ),
    "symbolic link": ("link", lambda: archive(entry("a", tarfile.SYMTYPE, target="/etc/passwd"))),
    "hard link": ("link", lambda: archive(STAR, entry("a", tarfile.LNKTYPE, target="suite.star"))),
    "long link": (
        "link",
        lambda: archive(
            entry("a", tarfile.SYMTYPE, target="/" + "e" * 200), form=tarfile.GNU_FORMAT
        ),
    ),
    "character device": ("device", lambda: archive(entry("null", tarfile.CHRTYPE))),
    "block device": ("device", lambda: archive(entry("sda", tarfile.BLKTYPE))),
    "named pipe": ("device", lambda: archive(entry("pipe", tarfile.FIFOTYPE))),
    "sparse file": ("sparse", lambda: archive(entry("a", tarfile.GNUTYPE_SPARSE))),
    "sparse file by pax": ("sparse", sparse_in_pax),
    "contiguous file": ("kind", lambda: archive(entry("a", tarfile.CONTTYPE))),
    "size by pax": (
        "pax_refused",
        lambda: archive(entry("a", tarfile.REGTYPE, size="99999999999")),
    ),
    "link by pax": ("pax_refused", lambda: archive(entry("a", tarfile.REGTYPE, linkpath="/etc"))),
    "same file twice": ("duplicate", lambda: archive(STAR, STAR)),
    "same file with and without ./": ("duplicate", lambda: archive(STAR, ("./suite.star", b"x"))),
    "file as a folder": ("duplicate", lambda: archive(("a", b"x"), ("a/b", b"x"))),
    "folder as a file": ("duplicate", lambda: archive(("a/b", b"x"), ("a", b"x"))),
    "513 files": ("too_many_files", lambda: archive(*((f"f{n}", b"") for n in range(513)))),
    "10,000 folders": (
        "too_many_entries",
        lambda: archive(*(entry(f"d{n}/", tarfile.DIRTYPE) for n in range(10_000))),
    ),
    "file of 3 MiB": ("file_too_large", lambda: archive(sized("a", 3 * 2**20))),
    "contract of 17 MiB": ("file_too_large", lambda: archive(sized("x/api/a", 17 * 2**20))),
    "gzip bomb of files": (
        "extracted_too_large",
        lambda: gzip.compress(tar(*((f"f{n}", b"a" * 2**21) for n in range(40))), mtime=0),
    ),
    "gzip bomb of zeros": ("extracted_too_large", lambda: gzip.compress(bytes(200 * 2**20))),
    "NUL byte": ("not_text", lambda: archive(("a", b"x\0y"))),
    "not UTF-8": ("not_text", lambda: archive(("a", b"\xff\xfe"))),
    "no gzip": ("not_gzip", lambda: tar(STAR)),
    "truncated gzip": ("truncated", lambda: GOOD[:-12]),
    "truncated tar": ("truncated", lambda: gzip.compress(tar(STAR)[:700], mtime=0)),
    "without an end": ("truncated", lambda: gzip.compress(tar(STAR)[:1024], mtime=0)),
    "wrong checksum of gzip": ("corrupt", lambda: GOOD[:-6] + b"\1\2" + GOOD[-4:]),
    "bytes behind gzip": ("trailing_bytes", lambda: GOOD + b"evil"),
    "second gzip member": ("trailing_bytes", lambda: GOOD + archive(("evil", b"x"))),
    "bytes behind the archive": (
        "trailing_bytes",
        lambda: gzip.compress(tar(STAR) + tar(("evil", b"x")), mtime=0),
    ),
    "wrong checksum of a header": (
        "corrupt",
        lambda: gzip.compress(tar(STAR).replace(b"suite.star", b"evil3.star"), mtime=0),
    ),
}


def doc(**changes: Any) -> bytes:
    return encoded({"mediaType": LAYER, "digest": digest_of(GOOD), "size": len(GOOD)}, changes)


def layer(**changes: Any) -> dict[str, Any]:
    return {"mediaType": LAYER, "digest": digest_of(GOOD), "size": len(GOOD), **changes}


MANIFESTS: dict[str, tuple[str, bytes, str]] = {  # code, manifest, its media type
    "index": ("index_refused", doc(layers=None, manifests=[]), OCI_MANIFEST),
    "index by its media type": (
        "index_refused",
        doc(mediaType="application/vnd.oci.image.index.v1+json"),
        "application/vnd.oci.image.index.v1+json",
    ),
    "Docker list": (
        "index_refused",
        doc(),
        "application/vnd.docker.distribution.manifest.list.v2+json",
    ),
    "schema 1": ("manifest_invalid", doc(schemaVersion=1), OCI_MANIFEST),
    "other media type": ("manifest_media_type", doc(), "text/html"),
    "two media types": (
        "manifest_media_type",
        doc(),
        "application/vnd.docker.distribution.manifest.v2+json",
    ),
    "no JSON": ("manifest_invalid", b"<html>", OCI_MANIFEST),
    "key twice": ("manifest_invalid", doc()[:-1] + b',"layers":[]}', OCI_MANIFEST),
    "deep": ("manifest_invalid", b'{"a":' * 50 + b"1" + b"}" * 50, OCI_MANIFEST),
    "2 MiB": ("manifest_too_large", b" " * 2**21 + doc(), OCI_MANIFEST),
    "no layer": ("layer_media_type", doc(layers=[]), OCI_MANIFEST),
    "layer of another type": (
        "layer_media_type",
        doc(layers=[layer(mediaType="application/zip")]),
        OCI_MANIFEST,
    ),
    "two layers": ("layer_count", doc(layers=[layer(), layer()]), OCI_MANIFEST),
    "layers that are no list": ("manifest_invalid", doc(layers={}), OCI_MANIFEST),
    "100 layers": ("manifest_invalid", doc(layers=[layer()] * 100), OCI_MANIFEST),
    "digest with a path": (
        "digest_invalid",
        doc(layers=[layer(digest="sha256:../../../etc/passwd")]),
        OCI_MANIFEST,
    ),
    "digest of md5": ("digest_invalid", doc(layers=[layer(digest="md5:00")]), OCI_MANIFEST),
    "negative size": ("size_invalid", doc(layers=[layer(size=-1)]), OCI_MANIFEST),
    "size 0": ("size_invalid", doc(layers=[layer(size=0)]), OCI_MANIFEST),
    "size as a text": ("size_invalid", doc(layers=[layer(size="9")]), OCI_MANIFEST),
    "layer of 33 MiB": ("layer_too_large", doc(layers=[layer(size=33 * 2**20)]), OCI_MANIFEST),
    "layer larger than said": (
        "size_mismatch",
        doc(layers=[layer(size=len(GOOD) - 1)]),
        OCI_MANIFEST,
    ),
    "layer smaller than said": (
        "size_mismatch",
        doc(layers=[layer(size=len(GOOD) + 1)]),
        OCI_MANIFEST,
    ),
}


@pytest.fixture(autouse=True)
def _nothing_is_written(tmp_path, monkeypatch):
    """Whatever is pulled: no file appears, in the working folder, beside it or in TMPDIR."""
    work = tmp_path / "a" / "work"
    work.mkdir(parents=True)
    monkeypatch.chdir(work)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "a"))
    yield
    assert files(tmp_path) <= {Path("configuration.yaml")}
    assert not any(Path(path).exists() for path in ("/etc/cron.d/evil", "/evil", "/tmp/evil"))


def files(folder: Path) -> set[Path]:
    return {
        (Path(where) / name).relative_to(folder)
        for where, _folders, names in os.walk(folder)
        for name in names
    }


def refused(registry: ScriptedRegistry, reference: str = "core/shop:1.0") -> str:
    """The code with which a pull is refused; nothing is stored then."""
    try:
        api.pull(f"{registry.host}/{reference}")
    except (api.PackageRefused, api.RegistryUnreachable) as error:
        reason = error.reason
    else:
        return "not refused"
    assert not StoredPackage.objects.exists()
    assert not LayerPart.objects.exists()
    return reason


def test_what_is_good_is_pulled(registry: ScriptedRegistry):
    registry.serve(archive(("top/suite.star", STAR[1]), ("top/.git/config", b"x")))

    package = api.pull(f"{registry.host}/core/shop:1.0")

    assert package.files == dict([STAR])
    assert api.stored_package(package.digest) is not None


@pytest.mark.slow
@pytest.mark.parametrize("case", ARCHIVES)
def test_a_hostile_archive_is_refused(registry: ScriptedRegistry, case: str):
    """Invariant 24."""
    code, made = ARCHIVES[case]
    registry.serve(made())

    assert refused(registry) == code


@pytest.mark.parametrize("case", MANIFESTS)
def test_a_hostile_manifest_is_refused(registry: ScriptedRegistry, case: str):
    """Invariant 24."""
    code, content, media_type = MANIFESTS[case]
    registry.serve(GOOD, manifest=content, media_type=media_type)
    changed = f"/v2/core/shop/blobs/{digest_of(GOOD)}"
    registry.routes[changed] = Reply(200, GOOD)

    assert refused(registry) == code


def test_a_manifest_of_another_digest_is_refused(registry: ScriptedRegistry):
    digest = registry.serve(GOOD)
    registry.routes[f"/v2/core/shop/manifests/{digest}"] = Reply(200, doc(annotations={"a": "b"}))

    assert refused(registry, f"core/shop@{digest}") == "digest_mismatch"


def test_a_layer_of_another_digest_is_refused(registry: ScriptedRegistry):
    registry.serve(GOOD, digest=digest_of(b"other"))
    registry.routes[f"/v2/core/shop/blobs/{digest_of(b'other')}"] = Reply(200, GOOD)

    assert refused(registry) == "digest_mismatch"


def test_a_layer_that_lies_about_its_length_is_refused(registry: ScriptedRegistry):
    registry.serve(GOOD)
    registry.routes[f"/v2/core/shop/blobs/{digest_of(GOOD)}"] = Reply(200, GOOD, length=10**9)

    assert refused(registry) == "size_mismatch"


def test_a_compressed_answer_is_refused(registry: ScriptedRegistry):
    """A bomb in the transfer would be inflated before any limit of ours."""
    registry.serve(GOOD)
    registry.routes[f"/v2/core/shop/blobs/{digest_of(GOOD)}"] = Reply(
        200, gzip.compress(bytes(10 * 2**20)), {"Content-Encoding": "gzip"}
    )

    assert refused(registry) == "invalid_response"


def redirected(registry: ScriptedRegistry, target: str) -> None:
    registry.serve(GOOD)
    registry.routes[f"/v2/core/shop/blobs/{digest_of(GOOD)}"] = Reply(
        307, headers={"Location": target}
    )


@pytest.mark.parametrize(
    ("target", "code"),
    [
        ("/v2/core/shop/blobs/" + digest_of(GOOD), "too_many_redirects"),  # to itself
        ("http://169.254.169.254/latest/meta-data", "address_refused"),
        ("http://[::ffff:169.254.169.254]/", "address_refused"),
        ("http://[64:ff9b::a9fe:a9fe]/", "address_refused"),
        ("http://100.100.100.200/", "address_refused"),
        ("http://224.0.0.1/", "address_refused"),
        ("http://2130706433/", "registry_unreachable"),  # is not an address for us
        ("http://user:secret@127.0.0.1/", "redirect_refused"),
        ("file:///etc/passwd", "redirect_refused"),
        ("gopher://127.0.0.1/", "redirect_refused"),
        ("", "redirect_refused"),
        ("http://[", "registry_unreachable"),
        ("http://127.0.0.1:65536/", "redirect_refused"),
        ("http://127.0.0.1:-1/", "redirect_refused"),
    ],
)
def test_a_hostile_redirect_is_refused(registry: ScriptedRegistry, target: str, code: str):
    redirected(registry, target)

    assert refused(registry) == code


def test_an_upload_is_not_redirected(registry: ScriptedRegistry):
    registry.routes["/v2/core/shop/blobs/uploads/"] = Reply(307, headers={"Location": "/v2/x"})

    with pytest.raises(api.RegistryUnreachable) as caught:
        api.push(f"{registry.host}/core/shop:1.0", dict([STAR]))

    assert caught.value.reason == "redirect_refused"


@pytest.mark.parametrize("target", ["http://10.0.0.7/", "http://inner.test/", "http://[::1]/"])
def test_a_redirect_inside_is_refused_without_the_permission(
    registry: ScriptedRegistry, configured, monkeypatch, target: str
):
    """The rule of the registry holds for every hop. Invariant 23."""
    only = AddressPolicy(frozenset({AddressKind.PUBLIC}), (ip_network("127.0.0.1/32"),))
    monkeypatch.setattr(registry_session, "PUBLIC_ONLY", only)
    configured(settings_entry(registry.url, allowLocalNetwork=False))
    names(monkeypatch, {"inner.test": "192.168.7.7"})
    redirected(registry, target)

    assert refused(registry) == "address_refused"


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.1.2.3", "192.168.0.9", "172.16.0.1", "100.64.0.1", "169.254.1.1", "0.0.0.0"],
)
def test_a_registry_that_leads_inside_is_refused(configured, monkeypatch, address: str):
    configured(settings_entry("http://registry.test", allowLocalNetwork=False))
    names(monkeypatch, {"registry.test": address})

    with pytest.raises(api.RegistryUnreachable) as caught:
        api.pull("registry.test/core/shop:1")

    assert caught.value.reason == "address_refused"


def test_a_name_with_one_inner_address_is_refused(configured, monkeypatch):
    configured(settings_entry("http://registry.test", allowLocalNetwork=False))
    names(monkeypatch, {"registry.test": ("93.184.216.34", "127.0.0.1")})

    with pytest.raises(api.RegistryUnreachable) as caught:
        api.pull("registry.test/core/shop:1")

    assert caught.value.reason == "address_refused"


def test_a_name_that_leads_elsewhere_the_second_time_is_asked_once(
    registry: ScriptedRegistry, configured, monkeypatch
):
    """DNS rebinding: every connection of a pull goes to the checked address. Invariant 23."""
    registry.serve(GOOD)
    configured(settings_entry(f"http://rebinding.test:{registry.port}"))
    asked = names(monkeypatch, {"rebinding.test": "127.0.0.1"}, then="169.254.169.254")

    api.pull(f"rebinding.test:{registry.port}/core/shop:1.0")

    assert asked == ["rebinding.test"]
    assert len(registry.asked) == 2


def test_a_redirect_to_a_name_that_leads_to_the_metadata_is_refused(
    registry: ScriptedRegistry, monkeypatch
):
    redirected(registry, "http://innocent.test/blob")
    names(monkeypatch, {"innocent.test": "169.254.169.254"})

    assert refused(registry) == "address_refused"


def names(monkeypatch, answers: dict[str, str | tuple[str, ...]], *, then: str = "") -> list[str]:
    """Have names resolved by a table, and to `then` when they are asked again; what was asked."""
    asked: list[str] = []
    real = socket.getaddrinfo

    def resolve(host: Any, port: Any, *more: Any, **options: Any) -> Any:
        if host not in answers:
            return real(host, port, *more, **options)
        found = then if then and host in asked else answers[host]
        asked.append(host)
        addresses = (found,) if isinstance(found, str) else found
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    return asked


@pytest.mark.parametrize("way", ["redirect", "realm"])
def test_a_registry_of_the_local_network_leads_to_no_other_host_there(
    registry: ScriptedRegistry, configured, way: str
):
    """Its permission is for itself."""
    configured(settings_entry(registry.url, username="ann", secret="a-secret-of-ann"))
    elsewhere = f"http://localhost:{registry.port}/inside"
    registry.routes["/v2/core/shop/manifests/1.0"] = (
        Reply(307, headers={"Location": elsewhere})
        if way == "redirect"
        else Reply(401, headers={"WWW-Authenticate": f'Bearer realm="{elsewhere}",service="x"'})
    )

    with pytest.raises(api.RegistryUnreachable) as refused:
        api.pull(f"{registry.host}/core/shop:1.0")

    assert refused.value.reason == "address_refused"
    assert not [path for _method, path, _headers in registry.asked if "inside" in path]


def test_credentials_do_not_follow_a_redirect(registry: ScriptedRegistry, configured):
    """Invariant 22."""
    configured(settings_entry(registry.url, username="ann", secret="a-secret-of-ann"))
    registry.routes[f"/v2/core/shop/blobs/{digest_of(GOOD)}"] = Reply(200, GOOD)
    with scripted_registry.scripted() as other:  # at another port
        registry.routes["/v2/core/shop/manifests/1.0"] = needs_password(
            Reply(307, headers={"Location": f"{other.url}/elsewhere"})
        )
        other.routes["/elsewhere"] = Reply(200, doc(), {"Content-Type": OCI_MANIFEST})

        api.pull(f"{registry.host}/core/shop:1.0")

    sent = {path: headers.get("Authorization") for _method, path, headers in registry.asked}
    (redirected,) = other.asked
    assert redirected[2].get("Authorization") is None
    assert sent["/v2/core/shop/manifests/1.0"] is not None


def test_a_host_that_a_registry_redirects_to_gets_no_credentials_by_asking(
    registry: ScriptedRegistry, configured
):
    """Invariant 22."""
    configured(settings_entry(registry.url, username="ann", secret="a-secret-of-ann"))
    with scripted_registry.scripted() as other:  # at another port
        challenge = f'Bearer realm="{other.url}/token",service="x"'
        registry.routes["/v2/core/shop/manifests/1.0"] = Reply(
            307, headers={"Location": f"{other.url}/elsewhere"}
        )
        other.routes["/elsewhere"] = Reply(401, headers={"WWW-Authenticate": challenge})
        other.routes["/token"] = Reply(200, b'{"token": "a-token"}')

        assert refused(registry) == "unauthorized"
    paths = [path for _method, path, _headers in (*registry.asked, *other.asked)]
    assert paths == ["/v2/core/shop/manifests/1.0", "/elsewhere"]


def needs_password(reply: Reply) -> Callable[[Any], Reply]:
    def answer(handler: Any) -> Reply:
        if handler.headers.get("Authorization"):
            return reply
        return Reply(401, headers={"WWW-Authenticate": 'Basic realm="x"'})

    return answer


@pytest.mark.parametrize(
    ("realm", "code"),
    [
        ("http://169.254.169.254/token", "address_refused"),
        ("file:///etc/passwd", "redirect_refused"),
        ("http://ann@127.0.0.1/token", "redirect_refused"),
        ("", "redirect_refused"),
        ("/huge", "invalid_response"),
        ("/empty", "invalid_response"),
        ("/loop", "too_many_redirects"),
    ],
)
def test_a_hostile_token_server_is_refused(registry: ScriptedRegistry, realm: str, code: str):
    challenge = f'Bearer realm="{realm}",service="x"'
    registry.routes["/v2/core/shop/manifests/1.0"] = Reply(
        401, headers={"WWW-Authenticate": challenge}
    )
    registry.routes |= {
        "/huge": Reply(200, b" " * 10**6),
        "/empty": Reply(200, b"{}"),
        "/loop": Reply(302, headers={"Location": "/loop"}),
    }

    assert refused(registry) == code


@pytest.mark.timed
def test_a_slow_answer_ends_with_the_time_of_a_pull(registry: ScriptedRegistry, monkeypatch):
    monkeypatch.setattr(packages, "PULL_S", 1.0)
    registry.serve(GOOD)
    registry.routes[f"/v2/core/shop/blobs/{digest_of(GOOD)}"] = Reply(200, GOOD, drip_s=0.3)
    began = time.monotonic()

    assert refused(registry) == "timeout"
    assert time.monotonic() - began < 5


def test_a_server_that_is_no_http_server_is_refused(configured):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host = f"127.0.0.1:{listener.getsockname()[1]}"
        configured(settings_entry(f"http://{host}"))
        threading.Thread(target=_speaks_nonsense, args=(listener,), daemon=True).start()
        with pytest.raises(api.RegistryUnreachable) as caught:
            api.pull(f"{host}/core/shop:1")

    assert caught.value.reason == "invalid_response"


def _speaks_nonsense(listener: socket.socket) -> None:
    for _ in range(3):
        connection, _address = listener.accept()
        with connection:
            connection.recv(4096)
            connection.sendall(b"SSH-2.0-OpenSSH\r\n\r\n")


def test_the_next_page_of_a_list_is_on_the_same_host(registry: ScriptedRegistry):
    registry.routes["/v2/_catalog"] = Reply(
        200,
        json.dumps({"repositories": ["core/shop"]}).encode(),
        {"Link": '<http://localhost/v2/_catalog?last=x>; rel="next"'},
    )

    result = api.sync_registry("R")

    assert [(error.repository, error.code) for error in result.errors] == [("", "link_refused")]


@pytest.mark.slow
def test_an_endless_list_ends_at_its_limit(registry: ScriptedRegistry, monkeypatch):
    monkeypatch.setattr(registry_client, "MAX_REPOSITORIES", 1000)

    def page(handler: Any) -> Reply:
        number = int(handler.path.rpartition("=")[2]) if "last=" in handler.path else 0
        found = [f"r{number * 200 + index}" for index in range(200)]
        link = f'</v2/_catalog?last={number + 1}>; rel="next"'
        return Reply(200, json.dumps({"repositories": found}).encode(), {"Link": link})

    registry.routes["/v2/_catalog"] = page

    result = api.sync_registry("R")

    assert result.packages == 0
    assert sum(path.startswith("/v2/_catalog") for _method, path, _headers in registry.asked) == 5


def test_what_a_registry_says_is_in_no_error(registry: ScriptedRegistry, configured):
    configured(settings_entry(registry.url, username="ann", secret="a-secret-of-ann"))
    registry.routes["/v2/core/shop/manifests/1.0"] = Reply(500, b"stack trace of the registry")

    with pytest.raises(api.RegistryUnreachable) as caught:
        api.pull(f"{registry.host}/core/shop:1.0")

    assert "stack" not in caught.value.detail
    assert "a-secret-of-ann" not in repr(caught.value) + str(caught.value.members)


def test_a_changed_layer_in_the_store_is_refused(registry: ScriptedRegistry):
    """Invariant 24."""
    digest = registry.serve(GOOD)
    api.pull(f"{registry.host}/core/shop:1.0")
    LayerPart.objects.update(content=archive(("suite.star", b"# evil\n")))

    with pytest.raises(api.DigestMismatch):
        api.stored_package(digest)


def test_forty_hostile_cases_are_in_the_tables():
    assert len(ARCHIVES) + len(MANIFESTS) >= 40
