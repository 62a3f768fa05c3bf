"""outputs.py - what a request gives back, under vLLM's names."""
from dataclasses import dataclass, field
from typing import Dict, Iterator, List, Mapping, Optional, Union


@dataclass
class Logprob:
    """A token at one place of a text."""
    logprob: float  #: natural logarithm of its probability
    rank: int  #: 1: the most likely one
    decoded_token: str  #: its text; U+FFFD where it is a part of a character


@dataclass(frozen=True)
class RequestMetrics(Mapping[str, float]):
    """How long a request took, in seconds. Its three times are also there as a mapping: metrics["queue"]."""
    queue: float  #: from its submission until its prompt began to be computed
    prefill: float  #: from then until its first token
    decode: float  #: from then until its last token
    num_generation_tokens: int = 0  #: of all answers that were computed

    @property
    def time_in_queue(self) -> float:
        """vLLM's name of queue."""
        return self.queue

    @property
    def first_token_latency(self) -> float:
        """Seconds from the submission until the first token."""
        return self.queue + self.prefill

    def __getitem__(self, key: str) -> float:
        if key not in ("queue", "prefill", "decode"):
            raise KeyError(key)
        return float(getattr(self, key))

    def __iter__(self) -> Iterator[str]:
        return iter(("queue", "prefill", "decode"))

    def __len__(self) -> int:
        return 3


@dataclass
class CompletionOutput:
    """One answer to a prompt."""
    index: int  #: which of the request's n answers, from 0
    text: str = ""  #: without the prompt
    token_ids: List[int] = field(default_factory=list)  #: the model's end token is one of them
    cumulative_logprob: Optional[float] = None  #: the tokens' sum; None: no logprobs were requested
    logprobs: Optional[List[Dict[int, Logprob]]] = None  #: one dict per token: itself and the most likely ones
    finish_reason: Optional[str] = None  #: "stop", "length", "timeout" or "abort"; None: not finished
    #: the one of stop_token_ids or of stop that ended it; None: the model's own end
    stop_reason: Union[None, int, str] = None

    def finished(self) -> bool:
        """Whether the answer is complete."""
        return self.finish_reason is not None


@dataclass
class RequestOutput:
    """A prompt and its answers."""
    request_id: str
    prompt: Optional[str]  #: None: the prompt was token ids
    prompt_token_ids: List[int]
    outputs: List[CompletionOutput]  #: n of them, by index; with best_of and beams: the best one first
    #: one per token of the prompt, the first None; None: not requested
    prompt_logprobs: Optional[List[Optional[Dict[int, Logprob]]]] = None
    finished: bool = False
    num_cached_tokens: int = 0  #: tokens of the prompt that the prefix cache had
    metrics: Optional[RequestMetrics] = None  #: None: not finished


@dataclass
class StreamOutput:
    """A piece of an answer, as soon as it is there: new text and tokens."""
    index: int  #: which prompt
    request_id: str
    text: str
    token_ids: List[int]
    logprobs: Optional[List[Dict[int, Logprob]]] = None
    choice: int = 0  #: which of the prompt's n answers
    finished: bool = False
    finish_reason: Optional[str] = None  #: as in CompletionOutput
    stop_reason: Union[None, int, str] = None


@dataclass
class EmbeddingOutput:
    """A vector."""
    embedding: List[float]  #: [hidden size, or PoolingParams.dimensions], of length 1

    @property
    def hidden_size(self) -> int:
        """How many numbers it has."""
        return len(self.embedding)


@dataclass
class EmbeddingRequestOutput:
    """A prompt and its vector."""
    request_id: str
    outputs: EmbeddingOutput
    prompt_token_ids: List[int]
    num_cached_tokens: int = 0
    finished: bool = True


@dataclass
class BeamSearchSequence:
    """One of the best continuations of a prompt."""
    tokens: List[int]  #: of the prompt and of the continuation
    cum_logprob: float  #: sum over the continuation's tokens
    text: str  #: of all tokens
    finish_reason: Optional[str] = None
    stop_reason: Union[None, int, str] = None


@dataclass
class BeamSearchOutput:
    """The best continuations of a prompt, the best one first."""
    sequences: List[BeamSearchSequence]  #: beam_width of them


@dataclass
class Metric:
    """A figure of the engine: its name in Prometheus' format (vllm:num_requests_running) and its labels."""
    name: str
    labels: Dict[str, str]


@dataclass
class Counter(Metric):
    """A number that only grows."""
    value: Union[int, float]


@dataclass
class Gauge(Metric):
    """A number as it is now."""
    value: float


@dataclass
class Histogram(Metric):
    """How often values were at most each bound."""
    count: int
    sum: float
    buckets: Dict[str, int] = field(default_factory=dict)  #: bound ("0.5", "+Inf"): how many values were at most that
