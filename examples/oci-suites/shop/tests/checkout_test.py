import os
import sys

sys.path.insert(0, os.path.join(os.environ["PARTITA_WORKSPACE_DIR"], "lib"))

import provider
from client import call
from shop import report, work


def an_order_has_a_number_and_a_total():
    status, order = call("/orders", {"apple": 2, "cheese": 1})
    assert status == 201, (status, order)
    assert order["total"] == 510, order
    assert order["currency"] == os.environ["CURRENCY"], order


def nobody_pays_twice():
    _, order = call("/orders", {"dates": 1})
    if provider.ADDRESS:
        status, payment = provider.capture(order["order"], order["total"])
        assert (status, payment["state"]) == (409, "REFUSED"), (status, payment)


def what_is_not_for_sale_is_refused():
    status, answer = call("/orders", {"yacht": 1})
    assert (status, answer["error"]) == (409, "not for sale: yacht"), answer


work(6, "basket filled")
report("checkout", [an_order_has_a_number_and_a_total, nobody_pays_twice, what_is_not_for_sale_is_refused])
