"""What REST views are made of: it imports Django REST framework, which `api` never does."""

from __future__ import annotations

from apps.http.rest.documents import DocumentField, Schema, page_of
from apps.http.rest.pagination import (
    paginate,
    paginate_queryset,
    requested_page,
    write_cursor,
)
from apps.http.rest.strict import (
    PAGING,
    InvalidParameter,
    StrictAPIView,
    StrictSerializer,
    StrictViewSet,
    choice_parameter,
    conditional_response,
    flag_parameter,
    integer_parameter,
    invalid_input,
    refuse_unknown_parameters,
    require_match,
)
