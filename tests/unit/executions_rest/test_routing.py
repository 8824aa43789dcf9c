from __future__ import annotations

import pytest

from apps.agents.api import carries


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
    assert carries(tags, {"gpu": "", "zone": "eu"}) is fits
