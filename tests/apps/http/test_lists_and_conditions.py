"""Lists and conditional requests (reference: control-plane 1.2)."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import RequestFactory
from rest_framework.request import Request

from apps.http.rest.pagination import InvalidCursor, paginate_queryset
from apps.operations.models import ReadinessMark
from kernel import clock
from tests.apps.http.conftest import Ask


def test_a_list_is_read_page_by_page_in_order(ask: Ask) -> None:
    seen, path = [], "/api/v1/names?limit=2"
    while path:
        body = ask("GET", path).json()
        assert body["total"] == 5
        seen += body["names"]
        path = f"/api/v1/names?limit=2&cursor={body['nextCursor']}" if "nextCursor" in body else ""

    assert seen == ["alpha", "beta", "delta", "epsilon", "gamma"]


@pytest.mark.parametrize("limit", ["0", "201", "-1", "1.5", "x", "", "٣", "9" * 40])
def test_a_limit_out_of_bounds_is_refused(ask: Ask, limit: str) -> None:
    answer = ask("GET", "/api/v1/names", params={"limit": limit})

    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_parameter")


def test_a_cursor_of_another_route_or_filter_is_refused(ask: Ask) -> None:
    cursor = ask("GET", "/api/v1/names?limit=2").json()["nextCursor"]

    for path in (
        f"/api/v1/more-names?cursor={cursor}",
        f"/api/v1/names?q=a&cursor={cursor}",
        "/api/v1/names?cursor=made-up",
        f"/api/v1/names?cursor={cursor[:-1]}",
        "/api/v1/names?cursor=",
    ):
        answer = ask("GET", path)
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid_cursor"), path


def listing(query: str = "") -> Request:
    return Request(RequestFactory().get(f"/marks{query}"))


@pytest.mark.django_db
def test_rows_are_paged_by_key_and_inserts_do_not_shift_pages() -> None:
    start = clock.now()
    for minute in (0, 1, 1, 2):
        ReadinessMark.objects.create(written_at=start + timedelta(minutes=minute))
    order = ("-written_at", "id")
    everything = list(ReadinessMark.objects.order_by(*order))

    first = paginate_queryset(listing("?limit=2"), ReadinessMark.objects.all(), order=order)
    ReadinessMark.objects.create(written_at=start + timedelta(minutes=9))
    rest = paginate_queryset(
        listing(f"?limit=3&cursor={first.next_cursor}"), ReadinessMark.objects.all(), order=order
    )

    assert first.items + rest.items == everything
    assert rest.next_cursor is None


@pytest.mark.django_db
def test_a_cursor_of_another_order_is_refused() -> None:
    ReadinessMark.objects.create()
    ReadinessMark.objects.create()
    page = paginate_queryset(listing("?limit=1"), ReadinessMark.objects.all(), order=("id",))

    with pytest.raises(InvalidCursor):
        paginate_queryset(
            listing(f"?cursor={page.next_cursor}"),
            ReadinessMark.objects.all(),
            order=("written_at", "id"),
        )


def test_a_known_representation_is_304_without_a_body(ask: Ask) -> None:
    etag = ask("GET", "/api/v1/document").headers["etag"]

    again = ask("GET", "/api/v1/document", headers={"If-None-Match": f'"x", {etag}'})

    assert (again.status_code, again.text, again.headers["etag"]) == (304, "", etag)


def test_a_write_with_another_tag_is_412(ask: Ask) -> None:
    etag = ask("GET", "/api/v1/document").headers["etag"]

    assert ask("PUT", "/api/v1/document", headers={"If-Match": etag}).status_code == 200
    assert ask("PUT", "/api/v1/document").status_code == 200
    for other in ('"x"', f"W/{etag}"):
        refused = ask("PUT", "/api/v1/document", headers={"If-Match": other})
        assert (refused.status_code, refused.json()["code"]) == (412, "precondition_failed")
