"""Which sentence is nearest: embeddings of a text encoder, the mean of its tokens' vectors.

    pip install fastgraph-runtime tokenizers
    python embed.py model.onnx tokenizer.json "a question" "an answer" "another one"

Both files of all-MiniLM-L6-v2 are at https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2 (onnx/model.onnx and
tokenizer.json); any encoder with the inputs input_ids and attention_mask does.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np

import fastgraph as fg

MULTIPLE = 16
"""Lengths are filled up to a multiple of it, so that sentences share plans."""


def batch(sentences: Sequence[Sequence[int]]) -> dict[str, np.ndarray]:
    """Token numbers as input_ids and attention_mask, int64 [sentences, length]: 1 where there is a token."""
    length = -(-max(map(len, sentences)) // MULTIPLE) * MULTIPLE
    ids = np.zeros((len(sentences), length), np.int64)
    mask = np.zeros_like(ids)
    for row, tokens in enumerate(sentences):
        ids[row, : len(tokens)], mask[row, : len(tokens)] = tokens, 1
    return {"input_ids": ids, "attention_mask": mask}


def embed(model: fg.Model, sentences: Sequence[Sequence[int]]) -> np.ndarray:
    """A vector of length 1 for each sentence of token numbers: the mean over its tokens."""
    feeds = batch(sentences)
    if any(spec.name == "token_type_ids" for spec in model.inputs):
        feeds["token_type_ids"] = np.zeros_like(feeds["input_ids"])
    tokens = model.run(feeds)[model.outputs[0].name]
    mask = feeds["attention_mask"][..., None]
    mean = (tokens * mask).sum(axis=1) / mask.sum(axis=1)
    return mean / np.linalg.norm(mean, axis=1, keepdims=True)


if __name__ == "__main__":
    from tokenizers import Tokenizer

    network, vocabulary, *texts = sys.argv[1:]
    tokenizer = Tokenizer.from_file(vocabulary)
    tokenizer.no_padding()
    vectors = embed(fg.load(network), [encoded.ids for encoded in tokenizer.encode_batch(texts)])
    for text, likeness in zip(texts[1:], vectors[1:] @ vectors[0], strict=True):
        print(f"{likeness:6.3f}  {text}")
