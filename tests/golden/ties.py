"""ties.py - choices of routers that depend on rounding, for odd.py.

A router selects the experts, or groups of experts, of a row by its largest values. A choice depends
on rounding if the last selected and the first omitted value differ by at most NEAR of the row's
largest value. quoth in float32 may then select the other expert. The row has other logits, and later rows
differ because they attend to it. odd.py omits the row itself, and compares the other rows with the
reference of the same choice.

    watch   records these choices of a forward pass of n rows, and inverts some of them
    Wanted  the results of the reference, those of the other choices, and exact results if they are
            needed

The classes of transformers compute norms, softmax and rope in float32 even if the model is in float64.
Some configurations amplify this rounding: the reference then differs from its own exact results by
more than the limit. Wanted compares quoth with the exact results of these configurations, and permits
twice the distance that transformers in float32 has from them.

SparseMixer (phimoe) also omits experts whose logits are far from the largest. Its threshold is a
choice, too."""
import contextlib
import itertools

import fields
import numpy as np
import torch
from transformers.models.phimoe import modeling_phimoe

NEAR = 1e-5
EVENTS_MAX = 4  # choices that Wanted inverts, in all combinations


def sizes(values):
    """Return the largest finite magnitude of each row."""
    return torch.where(values.isfinite(), values.abs(), 0).amax(dim=1)


@contextlib.contextmanager
def watch(n, inverted=()):
    """Yield the list of the choices that depend on rounding in a forward pass of n rows: (number of
    the call, row, ...). The choices of `inverted` are inverted."""
    events, calls, old, mixer = [], itertools.count(), (torch.topk, torch.Tensor.topk), modeling_phimoe.sparsemixer

    def is_inverted(event):
        events.append(event)
        return event in inverted

    def topk(values, k, dim=-1, **more):
        found = old[0](values, k, dim=dim, **more)
        if values.ndim != 2 or values.shape[0] != n or dim not in (-1, 1) or k >= values.shape[1]:
            return found
        call, (top, index) = next(calls), old[0](values, k + 1, dim=1)
        for row in torch.nonzero(top[:, k - 1] - top[:, k] <= NEAR * sizes(values)).flatten().tolist():
            if is_inverted((call, row)):
                at = found.indices[row] == index[row, k - 1]
                found.indices[row][at], found.values[row][at] = index[row, k], top[row, k]
        return found

    def sparsemixer(scores, jitter_eps, training, top_k=2):
        call, scores = next(calls), scores.clone()
        for row, s in enumerate(scores):
            order = s.argsort(descending=True).tolist()
            for place, (a, b) in enumerate(zip(order[:top_k], order[1:])):
                if s[a] - s[b] <= NEAR * s.abs().max() and is_inverted((call, row, "order", place)):
                    scores[row, a], scores[row, b] = s[b].item(), s[a].item()
            for place in range(top_k):
                largest = s[order[place]]
                for i in order[place + 1:]:
                    size = torch.maximum(s[i].abs(), largest)
                    past = (largest - s[i]) / size - 2 * jitter_eps
                    if past.abs() <= NEAR and is_inverted((call, row, "threshold", place, i)):
                        scores[row, i] += 2 * past * size
        return mixer(scores, jitter_eps, training, top_k)

    torch.topk, modeling_phimoe.sparsemixer = topk, sparsemixer
    torch.Tensor.topk = topk
    try:
        yield events
    finally:
        (torch.topk, torch.Tensor.topk), modeling_phimoe.sparsemixer = old, mixer


class Wanted:
    """Results of a model for tokens. rows: true for the rows that are compared."""

    def __init__(self, results_of, model, tokens):
        self.compute = lambda: results_of(model, tokens)
        self.compute_with = lambda other: results_of(other, tokens)
        self.model, self.n, self.exact, self.rough = model, len(tokens), None, 0.0
        with watch(self.n) as events:
            self.results = self.compute()
        self.events = list(events)
        self.rows = np.ones(len(self.results), bool)
        for event in self.events:
            self.rows[event[1]] = False
        self.others = None

    def n_tie(self):
        return int((~self.rows).sum())

    def nearest(self, got, distance, limit):
        """Return the results that are nearest to `got` in the compared rows, and their distance. The
        other choices are tried if the distance is above the limit."""
        far = lambda want: distance(got[self.rows], want[self.rows])  # noqa: E731
        best = self.results
        if far(best) > limit and self.events and self.others is None:
            some = self.events[:EVENTS_MAX]
            self.others = []
            for k in range(1, len(some) + 1):
                for inverted in itertools.combinations(some, k):
                    with watch(self.n, inverted):
                        self.others.append(self.compute())
        if far(best) > limit:
            best = min([best, *(self.others or [])], key=far)
        return best, far(best)

    def near(self, got, distance, limit):
        """Return the results that `got` is compared with, the distance, and the permitted
        distance."""
        want, d = self.nearest(got, distance, limit)
        if d <= limit:
            return want, d, limit
        if self.exact is None:
            with fields.exact():
                model = type(self.model)(self.model.config).double().eval()
                model.load_state_dict(self.model.state_dict())
                self.exact = self.compute_with(model)
            self.rough = distance(self.compute_with(self.model.float())[self.rows], self.exact[self.rows])
            self.model.double()
        return self.exact, distance(got[self.rows], self.exact[self.rows]), max(limit, 2 * self.rough)
