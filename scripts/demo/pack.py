"""From documents to numbers: the tokenizer, and shards of rows of tokens with loss weights.

A shard is a function of (seed, index, row length) alone. Rows are filled with whole documents. A
second process makes shards while the first process trains.
"""
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

import chatml
import data

VOCAB = 4096
OTHERS_WEIGHT = 0.1      # weight of text that the model did not generate
DOCS_PER_SHARD = 4000
# shards at which the mixture changes; the last stage begins with the long rows
STAGE_SHARDS = (18,)
SHORT, LONG = 512, 1024
WAITING = 64
PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
           r"\s*[\r\n]+|\s+(?!\S)|\s+") # Qwen2's pattern: digits one by one


def text_of(doc):
    return "".join(text for text, _ in chatml.pieces(doc))


def train_tokenizer(seed, n_docs, path):
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(PATTERN), "isolated"),
                                                 pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tok.decoder = decoders.ByteLevel()
    tok.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(vocab_size=VOCAB - len(chatml.SPECIAL + chatml.MARKS), show_progress=False,
                                  initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
    strip = chatml.SPECIAL + chatml.MARKS
    tok.train_from_iterator((without(text_of(d), strip) for d in data.documents(seed, n_docs, stage=0)), trainer)
    tok.add_special_tokens(chatml.SPECIAL)
    tok.add_tokens(chatml.MARKS)
    assert tok.get_vocab_size() == VOCAB, tok.get_vocab_size()
    tok.save(str(path))


def without(text, marks):
    for mark in marks:
        text = text.replace(mark, "")
    return text


def encode_docs(tok, docs):
    """Return the (ids, weights) of each document."""
    pieces = [chatml.pieces(d) for d in docs]
    flat = tok.encode_batch([text for p in pieces for text, _ in p], add_special_tokens=False)
    at = iter(flat)
    for p in pieces:
        parts = [(next(at).ids, learn) for _, learn in p]
        ids = np.concatenate([np.array(i, np.uint16) for i, _ in parts])
        yield ids, np.concatenate([np.full(len(i), 1.0 if learn else OTHERS_WEIGHT, np.float16) for i, learn in parts])


def rows_of(encoded, length):
    """Fill rows of length + 1 tokens (inputs and targets overlap by one): whole documents, then
    padding of weight 0.

    A row takes the document that has waited longest, then repeatedly the largest waiting document
    that fits."""
    waiting, rows, weights = [], [], []
    for ids, w in encoded:
        if len(ids) <= length + 1:
            waiting.append((ids, w))
        if len(waiting) == WAITING:
            row, weight = fill_row(waiting, length + 1)
            rows.append(row)
            weights.append(weight)
    return np.stack(rows), np.stack(weights)


def fill_row(waiting, space):
    row, weight, used = np.zeros(space, np.uint16), np.zeros(space, np.float16), 0
    at = 0
    while at is not None:
        ids, w = waiting.pop(at)
        row[used:used + len(ids)], weight[used:used + len(ids)] = ids, w
        used += len(ids)
        fitting = [i for i, (other, _) in enumerate(waiting) if len(other) <= space - used]
        at = max(fitting, key=lambda i: len(waiting[i][0]), default=None)
    return row, weight


def stage_of(index, length):
    """Return the mixture of data.STAGES of a shard."""
    return len(data.STAGES) - 1 if length == LONG else sum(index >= first for first in STAGE_SHARDS)


def shard_docs(seed, index, length):
    return data.documents(seed * 1_000_003 + index, DOCS_PER_SHARD, stage=stage_of(index, length))


def make_shard(tokenizer_path, seed, index, length):
    tok = Tokenizer.from_file(str(tokenizer_path))
    return rows_of(encode_docs(tok, list(shard_docs(seed, index, length))), length)


class Shards:
    """An endless stream of batches (tokens [n, length + 1], weights of the same shape), with one
    shard made ahead. `used` lists [index, row length] of every shard that was begun. `taken`
    batches of the last shard were used, and the stream continues after these batches."""

    def __init__(self, tokenizer_path, seed, used, taken=0):
        self.args, self.used, self.taken = (tokenizer_path, seed), used, taken
        self.pool = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
        self.ahead = None

    def order(self, length):
        self.ahead = length, self.pool.submit(make_shard, *self.args, len(self.used), length)

    def begin(self, length):
        """Return the next shard's rows, and start making the following shard."""
        if self.ahead is None or self.ahead[0] != length:
            self.order(length)
        shard = self.ahead[1].result()
        self.used.append([len(self.used), length])
        self.order(length)
        return shard

    def batches(self, length_of, tokens_per_batch):
        again = self.used.pop()[1] if self.used else None
        while True:
            length = again or length_of()
            (rows, weights), n, again = self.begin(length), tokens_per_batch // length, None
            for i in range(self.taken * n, len(rows) - n + 1, n):
                self.taken += 1
                yield rows[i:i + n], weights[i:i + n]
            self.taken = 0
