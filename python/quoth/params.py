"""params.py - SamplingParams under vLLM's names. Types and ranges are checked at construction.
Values that depend on the model (token ids, context) are checked at the submission of a request.
Errors of both checks contain the invalid field."""
import copy
import enum
import json
from dataclasses import asdict, dataclass, fields
from typing import Any, Dict, List, Optional, Tuple, Union

from ._lib import sampling_params

LOGPROBS_MAX = 20

# The library's sampling parameters: types, ranges, defaults.
_LISTED = {p["name"]: p for p in sampling_params()}
# ranges (low, high) of other integers of a request
_INTS = {
    "n": (1, 128), "best_of": (1, 128), "max_tokens": (0, 2**31 - 1), "logprobs": (0, LOGPROBS_MAX),
    "prompt_logprobs": (0, LOGPROBS_MAX), "seed": (-2**63, 2**63 - 1), "truncate_prompt_tokens": (1, 2**31 - 1),
    "thinking_token_budget": (0, 2**31 - 1),
}
_FLAGS = ("use_beam_search", "skip_special_tokens", "spaces_between_special_tokens", "include_stop_str_in_output",
          "detokenize")
# fields that the engine does not use
_HERE_ALONE = ("detokenize", "spaces_between_special_tokens", "truncate_prompt_tokens", "output_kind")
_STRUCTURED = ("structured_outputs", "guided_decoding")
_IDS = ("logprob_token_ids",)  # lists of token ids that are not sampling parameters
# fields of vLLM, accepted if None or empty
_NOT_YET = ("logits_processors", "extra_args")


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


# types of a list's items
_ITEMS: Dict[str, Tuple[type, str]] = {"string": (str, "texts"), "integer": (int, "token ids")}


# maximum of a range without an upper bound: the limit of a float or an int32 of C
_MOST = {"number": 3.4028234663852886e38, "integer": 2**31 - 1}


def _in_range(listed: Dict[str, Any], value: float) -> bool:
    inside = value > listed["exclusiveMinimum"] if "exclusiveMinimum" in listed else value >= listed["minimum"]
    return bool(inside and value <= listed.get("maximum", _MOST[listed["type"]]) or value == listed.get("also"))


def _check_listed(name: str, listed: Dict[str, Any], value: Any) -> None:
    """Raise ValueError if a listed number or flag is invalid. An integer may be None, which means
    the default."""
    kind = listed["type"]
    if kind == "boolean" and not isinstance(value, bool):
        raise ValueError(f"{name}: must be True or False, got {value!r}")
    if "range" not in listed or (kind == "integer" and value is None):
        return
    good = _is_int(value) if kind == "integer" else _is_number(value)
    if not good or not _in_range(listed, value):
        raise ValueError(f"{name}: must be {'an integer' if kind == 'integer' else 'a number'} {listed['range']}, got {value!r}")


class RequestOutputKind(enum.Enum):
    """Content of each output of AsyncLLM.generate."""
    CUMULATIVE = 0  #: the whole answer so far
    DELTA = 1  #: the new part since the previous output
    FINAL_ONLY = 2  #: a single output, the complete answer


@dataclass
class RepetitionDetectionParams:
    """Condition that ends an answer with finish_reason "repetition": its last tokens repeat a pattern
    of min_pattern_size to max_pattern_size tokens (0: off), min_count times in succession. Ranges
    are checked at the submission of a request."""
    max_pattern_size: int = 0
    min_pattern_size: int = 0  #: minimum length of the pattern; 0: 1 token
    min_count: int = 0

    def __post_init__(self) -> None:
        for f in fields(self):
            if not _is_int(getattr(self, f.name)):
                raise ValueError(f"{f.name}: expected an integer, got {getattr(self, f.name)!r}")


@dataclass
class StructuredOutputsParams:
    """A constraint on an answer. Exactly one of the first six fields is set. A complete answer
    satisfies the constraint with any sampling parameters. An answer that max_tokens truncates is
    the beginning of an answer that satisfies it.

    json: a JSON Schema, as a dict, a bool or its text. regex: an expression for the whole answer.
    choice: list of texts; the answer is one of them. grammar: GBNF or Lark. json_object: any JSON
    object. structural_tag: structural tag of xgrammar, as a dict or its text.

    All other fields are for JSON. whitespace_pattern: an expression for the white space between
    JSON tokens. disable_any_whitespace: no white space. disable_additional_properties: objects have
    only members of the schema, unless the schema allows further members. disable_fallback is a
    field of vLLM without effect.

    ValueError: none or several of the first six fields are set, or a value has the wrong type. The
    generation raises ValueError, with the place, for a constraint that cannot be enforced exactly."""
    json: Union[None, str, bool, Dict[str, Any]] = None
    regex: Optional[str] = None
    choice: Optional[List[str]] = None
    grammar: Optional[str] = None
    json_object: Optional[bool] = None
    structural_tag: Union[None, str, Dict[str, Any]] = None
    whitespace_pattern: Optional[str] = None
    disable_any_whitespace: bool = False
    disable_additional_properties: bool = False
    disable_fallback: bool = False

    def __post_init__(self) -> None:
        kinds: Dict[str, Tuple[Tuple[type, ...], str]] = {
            "json": ((str, bool, dict), "a dict, a bool or a text"), "regex": ((str,), "a text"),
            "choice": ((list, tuple), "a list of texts"), "grammar": ((str,), "a text"),
            "json_object": ((bool,), "True or False"), "structural_tag": ((str, dict), "a dict or a text"),
            "whitespace_pattern": ((str,), "a text")}
        for name, (types, what) in kinds.items():
            value = getattr(self, name)
            if value is not None and not isinstance(value, types):
                raise ValueError(f"{name}: expected {what}, got {value!r}")
        for name in ("disable_any_whitespace", "disable_additional_properties", "disable_fallback"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name}: expected True or False, got {getattr(self, name)!r}")
        if self.choice is not None and not (self.choice and all(isinstance(c, str) for c in self.choice)):
            raise ValueError(f"choice: expected a list of texts, got {self.choice!r}")
        given = [name for name in list(kinds)[:6] if getattr(self, name) is not None and not (
            name == "json_object" and self.json_object is False)]
        if len(given) != 1:
            raise ValueError("structured_outputs: expected one of json, regex, choice, grammar, json_object and "
                             f"structural_tag, got {' and '.join(given) if given else 'none'}")

    def to_body(self) -> Dict[str, Any]:
        """Return the field structured_outputs of a request."""
        body = {f.name: getattr(self, f.name) for f in fields(self)}
        for name in ("json", "structural_tag"):
            if body[name] is not None and not isinstance(body[name], str):
                # JSON text preserves numbers of any length
                body[name] = json.dumps(body[name])
        return {name: value for name, value in body.items() if value is not None and value is not False}


@dataclass
class GuidedDecodingParams(StructuredOutputsParams):
    """vLLM's older name of StructuredOutputsParams, for SamplingParams(guided_decoding=...)."""
    backend: Optional[str] = None  #: field of vLLM, without effect

    def to_body(self) -> Dict[str, Any]:
        """Return the field structured_outputs of a request."""
        body = super().to_body()
        body.pop("backend", None)
        return body


@dataclass
class SamplingParams:
    """Parameters of the answers to a prompt. There are n answers of at most max_tokens tokens each.
    A token is picked at `temperature` (0: always the most likely token). The candidates are at
    most top_k of the most likely tokens (-1: all), up to the total probability top_p. A candidate
    is at least min_p times as likely as the most likely token.

    An answer ends at the model's end token (unless ignore_eos), at a text of `stop`, or at a token
    of stop_token_ids, but not before min_tokens. logprobs, prompt_logprobs: number of
    most likely tokens to return with their log probabilities, in addition to each token. max_tokens
    None: up to the end of the context. seed None: a seed from the LLM's seed and the request's
    number. truncate_prompt_tokens: number of last tokens of the prompt that are used. Penalties
    have vLLM's meaning. The usual tokens of bad_words are never generated, but other tokens may
    spell the same text. If allowed_token_ids is set, only these tokens are generated. timeout:
    seconds after which the answer ends with the tokens so far.

    ValueError: a value has the wrong type or is outside its range. The error's sentence begins with
    the field's name."""
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
    # search with n (or best_of) beams; the n best beams are returned, ordered by
    # (sum of logprobs) / length ** length_penalty
    use_beam_search: bool = False
    length_penalty: float = 1.0
    early_stopping: Union[bool, str] = False
    # parameters that vLLM does not have
    typical_p: float = 1.0
    top_n_sigma: float = -1.0
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    dry_multiplier: float = 0.0
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_penalty_last_n: int = -1
    dry_sequence_breakers: Optional[List[str]] = None
    min_keep: int = 0
    dynatemp_range: float = 0.0
    dynatemp_exponent: float = 1.0
    adaptive_target: float = -1.0
    adaptive_decay: float = 0.9
    samplers: Optional[List[str]] = None  # order of the samplers, by llama.cpp's names; all other samplers are off
    mirostat: int = 0
    mirostat_tau: float = 5.0
    mirostat_eta: float = 0.1
    repeat_last_n: int = -1
    timeout: Optional[float] = None  # seconds after which the answer ends with the tokens so far
    # parameters of vLLM; output_kind is for AsyncLLM, because LLM returns complete answers
    output_kind: RequestOutputKind = RequestOutputKind.CUMULATIVE
    structured_outputs: Optional[StructuredOutputsParams] = None  # constraint on the answer
    guided_decoding: Optional[StructuredOutputsParams] = None  # older name of structured_outputs
    logits_processors: Optional[Any] = None
    extra_args: Optional[Dict[str, Any]] = None
    thinking_token_budget: Optional[int] = None  # maximum number of tokens inside the reasoning, which then ends
    repetition_detection: Optional[RepetitionDetectionParams] = None
    logprob_token_ids: Optional[List[int]] = None  # tokens to report in place of the most likely tokens; needs logprobs

    def __post_init__(self) -> None:
        for name in _NOT_YET:
            if getattr(self, name) is not None and getattr(self, name) not in ([], {}, ()):
                raise ValueError(f"{name}: not supported yet")
        if not isinstance(self.output_kind, RequestOutputKind):
            raise ValueError(f"output_kind: expected a RequestOutputKind, got {self.output_kind!r}")
        for name, listed in _LISTED.items():
            _check_listed(name, listed, getattr(self, name))
        if not _is_number(self.length_penalty) or not -100 <= self.length_penalty <= 100:
            raise ValueError(f"length_penalty: must be a number in [-100, 100], got {self.length_penalty!r}")
        if self.timeout is not None and (not _is_number(self.timeout) or not 0 < self.timeout <= 1e9):
            raise ValueError(f"timeout: must be a number in (0, 1e9], got {self.timeout!r}")
        for name, (low, high) in _INTS.items():
            value = getattr(self, name)
            if value is not None and not (_is_int(value) and low <= value <= high):
                raise ValueError(f"{name}: expected an integer in [{low}, {high}], got {value!r}")
        for name in _FLAGS:
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name}: expected True or False, got {getattr(self, name)!r}")
        for name in _STRUCTURED:
            if not isinstance(getattr(self, name), (StructuredOutputsParams, type(None))):
                raise ValueError(f"{name}: expected StructuredOutputsParams, got {getattr(self, name)!r}")
        if not isinstance(self.repetition_detection, (RepetitionDetectionParams, type(None))):
            raise ValueError("repetition_detection: expected RepetitionDetectionParams, got "
                             f"{self.repetition_detection!r}")
        self._check_lists()
        self._check_together()

    def _check_lists(self) -> None:
        if isinstance(self.stop, str):
            self.stop = [self.stop]
        for name, kind, what in [("stop", str, "texts")] + [
                (name, *_ITEMS[p["items"]]) for name, p in _LISTED.items() if p.get("items") in _ITEMS] + [
                (name, *_ITEMS["integer"]) for name in _IDS]:
            value = getattr(self, name)
            if value is None:
                continue
            if not isinstance(value, (list, tuple, set)) or not all(
                    isinstance(x, kind) and not isinstance(x, bool) for x in value):
                raise ValueError(f"{name}: expected a list of {what}, got {value!r}")
            setattr(self, name, list(value))
            if kind is str and any(not x for x in value):
                raise ValueError(f"{name}: an empty text is in the list")
        if self.logit_bias is not None:
            try:
                self.logit_bias = {int(k): float(v) for k, v in self.logit_bias.items()}
            except (AttributeError, TypeError, ValueError):
                raise ValueError(f"logit_bias: expected token ids and numbers, got {self.logit_bias!r}") from None

    def _check_together(self) -> None:
        if self.best_of is not None and self.best_of < self.n:
            raise ValueError(f"best_of: {self.best_of} is less than n, {self.n}")
        if self.max_tokens is not None and self.min_tokens > self.max_tokens:
            raise ValueError(f"min_tokens: {self.min_tokens} is above max_tokens, {self.max_tokens}")
        if self.structured_outputs is not None and self.guided_decoding is not None:
            raise ValueError("guided_decoding: must not come with structured_outputs")
        if self.early_stopping not in (True, False, "never"):
            raise ValueError(f'early_stopping: expected True, False or "never", got {self.early_stopping!r}')

    def clone(self) -> "SamplingParams":
        """Return a deep copy."""
        return copy.deepcopy(self)

    def to_json(self, seed: Optional[int] = None) -> bytes:
        """Return the parameters as JSON for libquoth. `seed` is used if the parameters have no
        seed."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in _HERE_ALONE + _NOT_YET + _STRUCTURED}
        structured = self.structured_outputs or self.guided_decoding
        if structured is not None:
            values["structured_outputs"] = structured.to_body()
        if self.repetition_detection is not None:
            values["repetition_detection"] = asdict(self.repetition_detection)
        if values["max_tokens"] is None:
            values["max_tokens"] = 2**31 - 1  # up to the end of the context
        if values["seed"] is None:
            values["seed"] = seed
        if values["best_of"] is None or values["best_of"] == values["n"]:
            del values["best_of"]
        return json.dumps({k: v for k, v in values.items() if v is not None}).encode()


@dataclass
class BeamSearchParams:
    """Parameters of a beam search for the beam_width best continuations. A continuation ends after
    max_tokens tokens or at the model's end token. Continuations are ordered by
    (sum of logprobs) / length ** length_penalty. ValueError, with the field's name, for an invalid
    field."""
    beam_width: int  #: [1, 128]
    max_tokens: int
    ignore_eos: bool = False
    temperature: float = 0.0  #: field of vLLM; must be 0, because beams are not sampled
    length_penalty: float = 1.0
    include_stop_str_in_output: bool = False

    def __post_init__(self) -> None:
        if not _is_int(self.beam_width) or not 1 <= self.beam_width <= 128:
            raise ValueError(f"beam_width: expected an integer in [1, 128], got {self.beam_width!r}")
        if self.temperature != 0:
            raise ValueError(f"temperature: expected 0, beams are not sampled, got {self.temperature!r}")
        self.sampling_params()

    def sampling_params(self) -> SamplingParams:
        """Return the equivalent parameters of a request."""
        return SamplingParams(n=self.beam_width, use_beam_search=True, max_tokens=self.max_tokens, logprobs=0,
                              ignore_eos=self.ignore_eos, length_penalty=self.length_penalty,
                              include_stop_str_in_output=self.include_stop_str_in_output)


@dataclass
class PoolingParams:
    """Parameters of the vector of a prompt. dimensions: number of first components that
    are used, and normalized again if the model normalizes (None: all). pooling: method for the final hidden
    states, "mean", "last" or "first" ("auto": the model's method, or "last" if it has none)."""
    dimensions: Optional[int] = None
    pooling: str = "auto"
    normalize: Optional[bool] = None  #: field of vLLM; the model's modules decide
    truncate_prompt_tokens: Optional[int] = None
    #: False: logits of a classifier instead of probabilities; None: probabilities
    use_activation: Optional[bool] = None

    def __post_init__(self) -> None:
        if self.use_activation not in (None, True, False):
            raise ValueError(f"use_activation: expected True, False or None, got {self.use_activation!r}")
        for name in ("dimensions", "truncate_prompt_tokens"):
            value = getattr(self, name)
            if value is not None and (not _is_int(value) or value < 1):
                raise ValueError(f"{name}: expected an integer above 0, got {value!r}")
        if self.pooling not in ("auto", "mean", "last", "first", "cls"):
            raise ValueError(f'pooling: expected "auto", "mean", "last" or "first", got {self.pooling!r}')
        if self.normalize not in (None, True):
            raise ValueError("normalize: not supported yet; the model's modules decide")
