import os
import sys

sys.path.insert(0, os.path.join(os.environ["PARTITA_WORKSPACE_DIR"], "lib"))

from client import call
from shop import report, work


def search_finds_by_part_of_the_name():
    _, goods = call("/goods?q=ea")
    assert list(goods) == ["bread"], goods


def search_without_a_match_is_empty():
    _, goods = call("/goods?q=zebra")
    assert goods == {}, goods


work(5, "query asked")
report("search", [search_finds_by_part_of_the_name, search_without_a_match_is_empty])
