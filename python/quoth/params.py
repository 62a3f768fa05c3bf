"""params.py - SamplingParams under vLLM's names. Kinds and ranges are checked when it is made; what depends on the model
(token ids, context) when a request is submitted. Both say which field is wrong."""
import json
from dataclasses import dataclass, fields
from typing import Dict, List, Optional, Union

LOGPROBS_MAX = 20

# field: (low, high, low itself is allowed)
_REALS = {
    "temperature": (0, 100, True), "top_p": (0, 1, False), "min_p": (0, 1, True), "typical_p": (0, 1, False),
    "presence_penalty": (-2, 2, True), "frequency_penalty": (-2, 2, True),
    "repetition_penalty": (0, float("inf"), False), "length_penalty": (-100, 100, True), "xtc_probability": (0, 1, True), "xtc_threshold": (0, 1, True),
    "dry_multiplier": (0, float("inf"), True), "dry_base": (1, float("inf"), True),
    "mirostat_tau": (0, float("inf"), False), "mirostat_eta": (0, 1, False), "timeout": (0, 1e9, False),
}
_OPTIONAL = ("timeout",)
_INTS = {
    "n": (1, 128), "best_of": (1, 128), "top_k": (-1, 2**31 - 1), "max_tokens": (0, 2**31 - 1),
    "min_tokens": (0, 2**31 - 1), "logprobs": (0, LOGPROBS_MAX), "prompt_logprobs": (0, LOGPROBS_MAX),
    "seed": (-2**63, 2**63 - 1), "truncate_prompt_tokens": (1, 2**31 - 1), "mirostat": (0, 2),
    "dry_allowed_length": (0, 2**31 - 1), "dry_penalty_last_n": (-1, 2**31 - 1), "repeat_last_n": (-1, 2**31 - 1),
}
_FLAGS = ("ignore_eos", "use_beam_search", "skip_special_tokens", "spaces_between_special_tokens", "include_stop_str_in_output",
          "detokenize")
_HERE_ALONE = ("detokenize", "spaces_between_special_tokens", "truncate_prompt_tokens")  # not the engine's matter


def _is_int(value):
    return isinstance(value, int) and not isinstance(value, bool)


@dataclass
class SamplingParams:
    n: int = 1
    best_of: Optional[int] = None
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = -1
    min_p: float = 0.0
    seed: Optional[int] = None
    stop: Union[None, str, List[str]] = None
    stop_token_ids: Optional[List[int]] = None
    bad_words: Optional[List[str]] = None
    include_stop_str_in_output: bool = False
    ignore_eos: bool = False
    max_tokens: Optional[int] = 16
    min_tokens: int = 0
    logprobs: Optional[int] = None
    prompt_logprobs: Optional[int] = None
    detokenize: bool = True
    skip_special_tokens: bool = True
    spaces_between_special_tokens: bool = True
    truncate_prompt_tokens: Optional[int] = None
    logit_bias: Optional[Dict[int, float]] = None
    allowed_token_ids: Optional[List[int]] = None
    # n (or best_of) beams, the n best are told: by the sum of logprobs / length ** length_penalty
    use_beam_search: bool = False
    length_penalty: float = 1.0
    early_stopping: Union[bool, str] = False
    # beyond vLLM
    typical_p: float = 1.0
    top_n_sigma: float = -1.0
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    dry_multiplier: float = 0.0
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_penalty_last_n: int = -1
    dry_sequence_breakers: Optional[List[str]] = None
    mirostat: int = 0
    mirostat_tau: float = 5.0
    mirostat_eta: float = 0.1
    repeat_last_n: int = -1
    timeout: Optional[float] = None  # seconds after which the answer is what there is

    def __post_init__(self):
        for name, (low, high, closed) in _REALS.items():
            if name not in _OPTIONAL or getattr(self, name) is not None:
                self._check_real(name, low, high, closed)
        for name, (low, high) in _INTS.items():
            value = getattr(self, name)
            if value is not None and not (_is_int(value) and low <= value <= high):
                raise ValueError(f"{name}: expected an integer in [{low}, {high}], found {value!r}")
        for name in _FLAGS:
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name}: expected True or False, found {getattr(self, name)!r}")
        self._check_lists()
        self._check_together()

    def _check_real(self, name, low, high, closed):
        value = getattr(self, name)
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise ValueError(f"{name}: expected a number, found {value!r}")
        if not (low <= value <= high) or (value == low and not closed):
            border = "[" if closed else "("
            raise ValueError(f"{name}: expected a number in {border}{low}, {high}], found {value!r}")

    def _check_lists(self):
        if isinstance(self.stop, str):
            self.stop = [self.stop]
        for name, kind, what in (("stop", str, "texts"), ("bad_words", str, "texts"),
                                 ("dry_sequence_breakers", str, "texts"), ("stop_token_ids", int, "token ids"),
                                 ("allowed_token_ids", int, "token ids")):
            value = getattr(self, name)
            if value is None:
                continue
            if not isinstance(value, (list, tuple, set)) or not all(
                    isinstance(x, kind) and not isinstance(x, bool) for x in value):
                raise ValueError(f"{name}: expected a list of {what}, found {value!r}")
            setattr(self, name, list(value))
            if kind is str and any(not x for x in value):
                raise ValueError(f"{name}: an empty text is in the list")
        if self.logit_bias is not None:
            try:
                self.logit_bias = {int(k): float(v) for k, v in self.logit_bias.items()}
            except (AttributeError, TypeError, ValueError):
                raise ValueError(f"logit_bias: expected token ids and numbers, found {self.logit_bias!r}") from None

    def _check_together(self):
        if self.best_of is not None and self.best_of < self.n:
            raise ValueError(f"best_of: {self.best_of} is less than n, {self.n}")
        if self.max_tokens is not None and self.min_tokens > self.max_tokens:
            raise ValueError(f"min_tokens: {self.min_tokens} is above max_tokens, {self.max_tokens}")
        if self.early_stopping not in (True, False, "never"):
            raise ValueError(f'early_stopping: expected True, False or "never", found {self.early_stopping!r}')
        if self.mirostat == 1:
            raise ValueError("mirostat: expected 0 (off) or 2, found 1")
        if self.top_n_sigma != -1 and not self.top_n_sigma > 0:
            raise ValueError(f"top_n_sigma: expected -1 (off) or a number above 0, found {self.top_n_sigma!r}")

    def to_json(self, seed=None) -> bytes:
        """What libquoth reads. `seed` stands in where this has none."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in _HERE_ALONE}
        if values["max_tokens"] is None:
            values["max_tokens"] = 2**31 - 1  # as far as the context goes
        if values["seed"] is None:
            values["seed"] = seed
        if values["best_of"] is None or values["best_of"] == values["n"]:
            del values["best_of"]
        return json.dumps({k: v for k, v in values.items() if v is not None}).encode()
