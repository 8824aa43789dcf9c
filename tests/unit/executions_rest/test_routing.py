from __future__ import annotations

import pytest

from apps.agents.api import is_routed_to
from apps.platform_settings.api import Backend


@pytest.mark.parametrize(
    ("tags", "fits"),
    [
        ((), True),
        (("gpu",), True),
        (("zone=eu",), True),
        (("gpu", "zone=eu"), True),
        (("zone=us",), False),
        (("arm",), False),
        (("gpu=",), True),
    ],
)
def test_every_tag_must_be_among_the_labels(tags, fits):
    backend = Backend(backend_id="b", label="B", type="remote-agent", routing_tags=tags)

    assert is_routed_to(backend, {"gpu": "", "zone": "eu"}) is fits
