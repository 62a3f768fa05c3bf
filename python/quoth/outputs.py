"""outputs.py - the results of requests, under vLLM's names."""
from dataclasses import dataclass, field
from typing import Dict, Iterator, List, Mapping, Optional, Union


@dataclass
class Logprob:
    """A token at one position of a text, with its probability."""
    logprob: float  #: natural logarithm of the token's probability
    rank: int  #: rank of the token; 1: the most likely token
    decoded_token: str  #: text of the token; U+FFFD for a part of a character


@dataclass(frozen=True)
class RequestMetrics(Mapping[str, float]):
    """Times of a request, in seconds. The three times are also items of a mapping:
    metrics["queue"]."""
    queue: float  #: from the submission to the start of computing the prompt
    prefill: float  #: from the start of computing the prompt to the first token
    decode: float  #: from the first token to the last token
    num_generation_tokens: int = 0  #: number of tokens of all computed answers

    @property
    def time_in_queue(self) -> float:
        """Return `queue` under vLLM's name."""
        return self.queue

    @property
    def first_token_latency(self) -> float:
        """Return the seconds from the submission until the first token."""
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
    index: int  #: number of the answer among the request's n answers, from 0
    text: str = ""  #: text of the answer, without the prompt
    token_ids: List[int] = field(default_factory=list)  #: ids of the answer's tokens, including the model's end token
    #: sum of the logprobs of all tokens; None: no logprobs were requested
    cumulative_logprob: Optional[float] = None
    #: one dict per token, with the token and the most likely tokens
    logprobs: Optional[List[Dict[int, Logprob]]] = None
    finish_reason: Optional[str] = None  #: "stop", "length", "timeout", "repetition", "abort"; None: not finished
    #: item of stop_token_ids or of stop that ended the answer; None: the model's end token ended it
    stop_reason: Union[None, int, str] = None

    def finished(self) -> bool:
        """True if the answer is complete."""
        return self.finish_reason is not None


@dataclass
class RequestOutput:
    """A prompt and its answers."""
    request_id: str
    prompt: Optional[str]  #: text of the prompt; None: the prompt was token ids
    prompt_token_ids: List[int]
    outputs: List[CompletionOutput]  #: n answers, by index; for best_of and beams, the best answer is first
    #: one item per token of the prompt, None for the first token; None: not requested
    prompt_logprobs: Optional[List[Optional[Dict[int, Logprob]]]] = None
    finished: bool = False
    num_cached_tokens: int = 0  #: tokens of the prompt that were in the prefix cache
    metrics: Optional[RequestMetrics] = None  #: None: not finished


@dataclass
class StreamOutput:
    """A piece of an answer: the text and the tokens that are new."""
    index: int  #: number of the prompt
    request_id: str
    text: str
    token_ids: List[int]
    logprobs: Optional[List[Dict[int, Logprob]]] = None
    choice: int = 0  #: number of the answer among the prompt's n answers
    finished: bool = False
    finish_reason: Optional[str] = None  #: finish_reason of the CompletionOutput
    stop_reason: Union[None, int, str] = None


@dataclass
class EmbeddingOutput:
    """A vector."""
    embedding: List[float]  #: vector [hidden size, or PoolingParams.dimensions] 

    @property
    def hidden_size(self) -> int:
        """Return the number of components."""
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
class ClassificationOutput:
    """Probabilities of a classifier's labels."""
    probs: List[float]  #: one per label; logits with PoolingParams(use_activation=False)

    @property
    def num_classes(self) -> int:
        """Return the number of labels."""
        return len(self.probs)


@dataclass
class ClassificationRequestOutput:
    """A prompt and the probabilities of its labels."""
    request_id: str
    outputs: ClassificationOutput
    prompt_token_ids: List[int]
    num_cached_tokens: int = 0
    finished: bool = True


@dataclass
class ScoringOutput:
    """The relevance of a text to another text."""
    score: float


@dataclass
class ScoringRequestOutput:
    """The score of a pair of texts."""
    request_id: str
    outputs: ScoringOutput
    prompt_token_ids: List[int] = field(default_factory=list)  #: always empty: the library forms the pair
    num_cached_tokens: int = 0
    finished: bool = True


@dataclass
class PoolingOutput:
    """The result of a pooling task."""
    data: Union[List[float], List[List[float]]]  #: a vector, probabilities, or a vector per token


@dataclass
class PoolingRequestOutput:
    """A prompt and the result of a pooling task."""
    request_id: str
    outputs: PoolingOutput
    prompt_token_ids: List[int]
    num_cached_tokens: int = 0
    finished: bool = True


@dataclass
class BeamSearchSequence:
    """One of the best continuations of a prompt."""
    tokens: List[int]  #: tokens of the prompt and of the continuation
    cum_logprob: float  #: sum of the logprobs of the continuation's tokens
    text: str  #: text of all tokens
    finish_reason: Optional[str] = None
    stop_reason: Union[None, int, str] = None


@dataclass
class BeamSearchOutput:
    """The best continuations of a prompt, in descending order of score."""
    sequences: List[BeamSearchSequence]  #: beam_width continuations


@dataclass
class Metric:
    """A figure of the engine, with its labels and its name in Prometheus' format
    (vllm:num_requests_running)."""
    name: str
    labels: Dict[str, str]


@dataclass
class Counter(Metric):
    """A number that never decreases."""
    value: Union[int, float]


@dataclass
class Gauge(Metric):
    """A number with its current value."""
    value: float


@dataclass
class Histogram(Metric):
    """Counts of the values up to each bound."""
    count: int
    sum: float
    #: bound ("0.5", "+Inf"): number of values of at most that bound
    buckets: Dict[str, int] = field(default_factory=dict)
