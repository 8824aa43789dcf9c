"""The artifacts of a run on its page: the list, previews that cannot act, and one zip of all."""

from __future__ import annotations

import zipfile
import zlib
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from apps.executions.models import Artifact, Execution
from kernel import clock
from tests.apps.executions.runs import Run, Worker, booted_run, node
from tests.apps.executions.test_artifacts import store
from tests.integration.pages import findings, picture, principal
from tests.support.browser import Reader

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("nobody_admits"),
]
SCREENS = [(1440, 900, "light"), (1024, 768, "dark"), (390, 844, "light"), (390, 844, "dark")]
EVIL = b"<img src=x onerror=\"document.title='hacked'\"><script>document.title='hacked'</script>"


def png(width: int, height: int) -> bytes:
    """A gray image."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = zlib.crc32(kind + data).to_bytes(4, "big")
        return len(data).to_bytes(4, "big") + kind + data + check

    header = width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes([8, 0, 0, 0, 0])
    rows = (b"\x00" + b"\x80" * width) * height
    return b"".join(
        [
            b"\x89PNG\r\n\x1a\n",
            chunk(b"IHDR", header),
            chunk(b"IDAT", zlib.compress(rows)),
            chunk(b"IEND", b""),
        ]
    )


@pytest.fixture
def run(ada: Reader, worker: Worker) -> Run:
    made = booted_run(node("check"), principal=principal(ada))
    worker.claim()
    store(worker, "check", EVIL, path="out/page.html", media_type="text/html")
    store(worker, "check", png(60, 40), path="out/screen.html", media_type="text/html")
    store(worker, "check", b"<svg onload='alert(1)'/>", path="out/drawing.svg")
    store(worker, "check", b"line\n" * 20_000, path="out/long.txt")
    store(worker, "check", b"\x00\x01\x02", path="out/data.bin")
    worker.end("check")
    return made


def open_artifacts(who: Reader, run: Run) -> Page:
    who.open(f"/executions/{run.id}?tab=artifacts")
    expect(who.page.locator("#run-artifacts table")).to_be_visible()
    return who.page


def opened_preview(page: Page, path: str) -> Any:
    button = page.get_by_role("button", name=f"Preview {path}")
    button.click()
    expect(button).to_have_attribute("aria-expanded", "true")
    return page.locator(f"#{button.get_attribute('aria-controls')}")


def test_previews_show_text_and_images_and_nothing_acts(ada: Reader, run: Run) -> None:
    page = open_artifacts(ada, run)
    title = page.title()

    expect(opened_preview(page, "out/page.html").locator("pre")).to_have_text(EVIL.decode())
    expect(opened_preview(page, "out/drawing.svg").locator("pre")).to_contain_text("<svg")
    cut = opened_preview(page, "out/long.txt")
    expect(cut).to_contain_text("These are the first 64 KiB")
    image = opened_preview(page, "out/screen.html").locator("img")
    expect(image).to_be_visible()
    page.wait_for_function("document.querySelector('.artifact-preview img').naturalWidth === 60")

    assert page.title() == title
    expect(page.get_by_role("button", name="Preview out/data.bin")).to_have_count(0)
    expect(page.get_by_role("tab", name="Artifacts (5)")).to_be_visible()


def test_an_open_preview_stays_open_when_the_list_is_newer(ada: Reader, run: Run) -> None:
    page = open_artifacts(ada, run)
    preview = opened_preview(page, "out/page.html")

    with page.expect_response(lambda response: response.url.endswith("/panels")):
        page.evaluate("document.dispatchEvent(new Event('run:changed'))")

    expect(preview.locator("pre")).to_have_text(EVIL.decode())
    page.get_by_role("button", name="Preview out/page.html").click()
    expect(preview).to_be_hidden()


def test_one_zip_has_all_of_them(ada: Reader, run: Run) -> None:
    page = open_artifacts(ada, run)

    with page.expect_download() as download:
        page.get_by_role("link", name="All as one zip").click()

    assert download.value.suggested_filename == f"{run.id}-artifacts.zip"
    with zipfile.ZipFile(download.value.path()) as archive:
        assert archive.read("check/1/out/page.html") == EVIL
        assert len(archive.namelist()) == 5


def test_expired_files_say_so(ada: Reader, run: Run) -> None:
    Artifact.objects.update(expired_at=clock.now())
    page = open_artifacts(ada, run)

    expect(page.locator("#run-artifacts tbody")).to_contain_text("removed after the retention time")
    expect(page.locator("#run-artifacts a")).to_have_count(0)


def test_a_run_without_artifacts_says_so(ada: Reader, run: Run) -> None:
    Artifact.objects.all().delete()
    assert Execution.objects.count() == 1
    ada.open(f"/executions/{run.id}?tab=artifacts")

    expect(ada.page.locator("#run-artifacts")).to_contain_text("This run kept no artifacts.")


@pytest.mark.parametrize("screen", SCREENS)
def test_the_artifacts_fit_their_window_and_axe_finds_nothing(
    ada: Reader, axe: str, run: Run, screen: tuple[int, int, Any]
) -> None:
    width, height, scheme = screen
    page = ada.page
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": height})
    open_artifacts(ada, run)
    expect(opened_preview(page, "out/page.html").locator("pre")).to_be_visible()
    expect(opened_preview(page, "out/screen.html").locator("img")).to_be_visible()
    moves = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
    assert not page.evaluate(moves)
    picture(page, f"artifacts-page-{width}-{scheme}")
    assert findings(page, axe) == []
