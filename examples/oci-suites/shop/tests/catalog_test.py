import os
import sys

sys.path.insert(0, os.path.join(os.environ["PARTITA_WORKSPACE_DIR"], "lib"))

from client import call
from shop import report, work


def every_good_is_listed():
    status, goods = call("/goods")
    assert status == 200, status
    assert len(goods) == 5, goods


def prices_are_in_cents():
    _, goods = call("/goods")
    assert goods["bread"] == 280, goods


def an_unknown_page_is_404():
    status, _ = call("/nothing")
    assert status == 404, status


work(5, "shelf checked")
report("catalog", [every_good_is_listed, prices_are_in_cents, an_unknown_page_is_404])
