"""outputs.py - what a request gives back, under vLLM's names."""
from dataclasses import dataclass, field
from typing import Dict, List, Optional, Union


@dataclass
class Logprob:
    logprob: float
    rank: int
    decoded_token: str


@dataclass
class CompletionOutput:
    index: int
    text: str = ""
    token_ids: List[int] = field(default_factory=list)
    cumulative_logprob: Optional[float] = None  # where logprobs were asked for
    logprobs: Optional[List[Dict[int, Logprob]]] = None  # one dict per token: itself and the most likely ones
    finish_reason: Optional[str] = None  # "stop", "length", "timeout", "abort"
    stop_reason: Union[None, int, str] = None  # which of stop_token_ids or of stop; None: the model's own end

    def finished(self) -> bool:
        return self.finish_reason is not None


@dataclass
class RequestOutput:
    request_id: str
    prompt: Optional[str]
    prompt_token_ids: List[int]
    outputs: List[CompletionOutput]
    prompt_logprobs: Optional[List[Optional[Dict[int, Logprob]]]] = None
    finished: bool = False
    num_cached_tokens: int = 0
    metrics: Optional[Dict[str, float]] = None  # seconds: queue, prefill, decode


@dataclass
class StreamOutput:
    """A piece of an answer, as soon as it is there: new text and tokens."""
    index: int  # which prompt
    request_id: str
    text: str
    token_ids: List[int]
    logprobs: Optional[List[Dict[int, Logprob]]] = None
    choice: int = 0
    finished: bool = False
    finish_reason: Optional[str] = None
    stop_reason: Union[None, int, str] = None
