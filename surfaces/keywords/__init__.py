"""Which keywords contracts and collections may have, and what is wrong in those that have others.

    for each in document_problems(grammar, root, target):    # a few hundred at most
        each.detail, each.at.line

A grammar is a table: what members an object of each kind may have, and of what kind they are.
"""

from surfaces.keywords.grammar import Grammar, read_grammar
from surfaces.keywords.walk import KeywordProblem, document_problems

__all__ = ["Grammar", "KeywordProblem", "document_problems", "read_grammar"]
