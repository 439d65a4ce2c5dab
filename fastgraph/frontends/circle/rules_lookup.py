"""Embeddings, tables of rows, hashes, n-grams. Semantics: tflite/kernels/{embedding_lookup, embedding_lookup_sparse,
hashtable_lookup, lsh_projection, skip_gram}.cc.
"""

from __future__ import annotations

from .call import Call, rule
from .common import computed, moved, whole


@rule("EMBEDDING_LOOKUP")
def _embedding_lookup(c: Call) -> None:
    """The rows of a table that ids name; quantized rows may become floats."""
    c.count(2)
    ids, table = whole(c, 0), c.x(1)
    out = c.outputs[0]
    if out.type.dtype == table.type.dtype:
        moved(c, "gather", [table, ids], axis=0)
        return
    computed(c, table)
    c.write("gather", [table, ids], axis=0)


@rule("EMBEDDING_LOOKUP_SPARSE")
def _embedding_lookup_sparse(c: Call) -> None:
    c.count(5)
    c.write("embedding_lookup_sparse", combiner=c.options.combiner)


@rule("HASHTABLE_LOOKUP")
def _hashtable_lookup(c: Call) -> None:
    c.count(3, 2)
    c.write("hashtable_lookup")


@rule("LSH_PROJECTION")
def _lsh_projection(c: Call) -> None:
    c.count((2, 3))
    kind = c.options.type
    if kind not in ("SPARSE", "DENSE"):
        c.fail(f"expected type SPARSE or DENSE, found {kind}")
    c.write("lsh_projection", dense=int(kind == "DENSE"))


@rule("SKIP_GRAM")
def _skip_gram(c: Call) -> None:
    c.count(1)
    o = c.options
    c.write("skip_gram", ngram_size=o.ngram_size, max_skip_size=o.max_skip_size,
            include_all_ngrams=int(o.include_all_ngrams))  # fmt: skip


@rule("CONCAT_EMBEDDINGS")
def _concat_embeddings(c: Call) -> None:
    c.unsupported("has a number but no meaning: no kernel of it was ever published")


@rule("DELEGATE")
def _delegate(c: Call) -> None:
    c.unsupported("stands for a part that was compiled for another device; use the model from before that")


@rule("PLACEHOLDER_FOR_GREATER_OP_CODES")
def _placeholder(c: Call) -> None:
    c.unsupported("is no operator: the file says no newer code beside it")
