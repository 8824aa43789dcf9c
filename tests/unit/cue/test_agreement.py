"""Our reader against two editions of the real `cue`: what it reads has the value that both give.

Where they differ, or where one of them refuses a file, our reader refuses it. What both read and
ours does not is counted, and may be little. CUE_PROGRAMS=10000 compares that many random files;
CUE_SEED chooses others, CUE_ALL=1 asks the programs about every committed file. Without Go the
answers that are written down beside this file count.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from cue import CueError, evaluate
from readers.tree import Kind, Tree
from tests.support import cue_oracle
from tests.support.cue_oracle import Answer, Number
from tests.support.cue_programs import Programs
from tests.support.cue_variants import variants

pytestmark = pytest.mark.slow
DRAW = 40
MOST_REFUSED = 0.03  # of the programs that both editions read
MOST_REFUSED_AT_RANDOM = 0.06
# files of cases/ that both editions read and ours refuses, each for a reason
REFUSED_CASES = {
    "basics/bytes": "bytes",
    "cycles/operand_of_itself": "a value that depends on itself",
    "mended/closed_definition_lacks_member": "a disjunction whose default is not a value",
    "mended/definition_widened_by_embedding": "a definition that its own embedding closes",
    "mended/embedding_of_later_declarations": "an embedding that is needed to know itself",
    "mended/embedding_of_optional_field": "an embedding that is needed to know itself",
    "mended/member_of_scalar_let": "a member of a scalar",
    "mended/operand_conflict_inside_list": "a member of a scalar",
    "mended/optional_field_leads_back_beside_more": "a value that depends on itself",
    "mended/reference_to_pure_cycle": "names that name each other",
    "mended/typed_open_lists_differ": "open lists of different types as alternatives",
    "packages/outside": "a package that is not read",
    "strings/multiline_end_not_alone": "a multiline string that ends behind its text",
}


def ours(text: str) -> Answer:
    try:
        return Answer(ok=True, value=spelled(evaluate(text, file="case.cue")))
    except CueError:
        return cue_oracle.REFUSED


def spelled(tree: Tree) -> Any:
    match tree.kind:
        case Kind.MAP:
            return {key: spelled(member) for key, member in tree.pairs.items()}
        case Kind.LIST:
            return [spelled(item) for item in tree.items]
        case Kind.NUMBER:
            return Number(tree.text)
        case _:
            return tree.plain()


@dataclass
class Tally:
    """What came of many files, by name."""

    read: int = 0
    wrong: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.read} read, {len(self.wrong)} wrong, {len(self.refused)} refused"

    @property
    def share(self) -> float:
        return len(self.refused) / max(1, self.read + len(self.refused))


def compared(texts: Mapping[str, str]) -> Tally:
    tally = Tally()
    for name, told in zip(texts, cue_oracle.all_answers(texts.values()), strict=True):
        mine = ours(texts[name])
        is_certain = all(answer.ok and answer.value == told[0].value for answer in told)
        if mine.ok and not (is_certain and mine.value == told[0].value):
            tally.wrong.append(f"{name}:\n{texts[name]}\nours {mine.value}\ntheirs {told}")
        elif mine.ok:
            tally.read += 1
        elif is_certain:
            tally.refused.append(name)
    return tally


@pytest.mark.timeout(1800)
def test_what_people_write_has_the_value_that_cue_gives_it():
    programs = cue_oracle.programs()

    tally = compared(programs)

    print(tally)
    assert tally.read + len(tally.refused) >= 400
    assert not tally.wrong, "\n-----\n".join(tally.wrong)
    assert tally.share <= MOST_REFUSED, f"{tally}: {tally.refused}"


@pytest.mark.timeout(900)
def test_each_rule_of_the_language_holds_or_is_refused():
    tally = compared(cue_oracle.cases())

    assert not tally.wrong, "\n-----\n".join(tally.wrong)
    assert set(tally.refused) == set(REFUSED_CASES)


def test_what_is_refused_names_the_program_that_reads_it():
    refused = [name for name in REFUSED_CASES if name.startswith(("basics", "packages", "cycles"))]
    texts = cue_oracle.cases()

    for name in refused:
        with pytest.raises(CueError, match="CUE_BINARY") as caught:
            evaluate(texts[name], file="f")
        assert {found.code for found in caught.value.diagnostics} == {"unsupported_cue"}


def drawn(wanted: int, texts: Iterable[str]) -> dict[str, str]:
    return {f"file {number}": text for number, text in zip(range(wanted), texts, strict=False)}


@pytest.mark.timeout(14400)
def test_random_files_have_the_value_that_cue_gives_them():
    if not cue_oracle.binaries():
        pytest.skip("random files need the cue programs, which need go")
    wanted = int(os.environ.get("CUE_PROGRAMS", DRAW))
    seed = int(os.environ.get("CUE_SEED", "1"))
    programs = Programs(seed)
    files = (programs.file() for _ in range(wanted))
    changed = variants(list(cue_oracle.programs().values()), seed)

    tally = compared(drawn(wanted, files))
    of_programs = compared(drawn(wanted, changed))

    print(tally, of_programs, sep="; of programs ")
    assert not tally.wrong + of_programs.wrong, "\n-----\n".join(tally.wrong + of_programs.wrong)
    assert tally.share <= MOST_REFUSED_AT_RANDOM, f"{tally}"
