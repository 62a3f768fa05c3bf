"""model.py - the common part of LLM and AsyncLLM: opens a model, converts prompts to token ids, and
converts events to outputs.

    prompt --tokenize--> Job --submit--> events --Answer--> RequestOutput"""
import itertools
import json
import math
import re
import threading
import warnings
from ctypes import c_void_p
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Type, TypeVar, Union

from . import _lib
from .options import library_options, names_given
from .outputs import (CompletionOutput, Counter, EmbeddingOutput, EmbeddingRequestOutput, Gauge, Histogram, Logprob,
                      Metric, RequestMetrics, RequestOutput, StreamOutput)
from .params import PoolingParams, SamplingParams

Prompt = Union[str, List[int], Dict[str, Any]]
Message = Mapping[str, Any]
Params = Union[SamplingParams, PoolingParams]
P = TypeVar("P", SamplingParams, PoolingParams)

_PROMPT_FORMS = "a text, token ids, or a dict with prompt or prompt_token_ids"


class Tokenizer:
    """Converter between text and token ids of a model. bos_token_id and eos_token_id are None if the
    model has no BOS or EOS. chat_template is the Jinja source, or None."""

    def __init__(self, model: "Model") -> None:
        self._model = model
        info = model.info()
        self.bos_token_id: Optional[int] = info["bos_token_id"] if info["bos_token_id"] >= 0 else None
        self.eos_token_id: Optional[int] = info["eos_token_id"] if info["eos_token_id"] >= 0 else None
        self.vocab_size: int = info["n_vocab"]
        self.chat_template: Optional[str] = info["chat_template"]

    def encode(self, text: str, add_special_tokens: bool = True) -> List[int]:
        """Return the token ids of a text. Special tokens in the text become their ids.
        add_special_tokens: True to add the tokens that this tokenizer puts around a text."""
        flags = _lib.PARSE_SPECIAL | (_lib.ADD_SPECIAL if add_special_tokens else 0)
        return _lib.tokenize(self._model._handle(), text, flags)

    def decode(self, token_ids: Union[int, Sequence[int]], skip_special_tokens: bool = False) -> str:
        """Return the text of token ids, with U+FFFD for an incomplete character at the end.
        ValueError: an id is outside the vocabulary."""
        ids = [token_ids] if isinstance(token_ids, int) else list(token_ids)
        return _lib.detokenize(self._model._handle(), ids, skip_special_tokens)

    def render_chat(self, conversation: Sequence[Message], tools: Optional[Sequence[Any]] = None,
                    documents: Optional[Sequence[Any]] = None, add_generation_prompt: bool = False,
                    continue_final_message: bool = False, **kwargs: Any) -> str:
        """Return the prompt of a conversation as text. kwargs are variables of the chat template.
        ValueError: the template rejects the conversation."""
        body: Dict[str, Any] = {
            "messages": conversation, "tools": tools, "documents": documents,
            "add_generation_prompt": add_generation_prompt, "continue_final_message": continue_final_message}
        if kwargs:
            body["chat_template_kwargs"] = kwargs
        return _lib.apply_chat_template(self._model._handle(), json.dumps(body))

    def apply_chat_template(self, conversation: Sequence[Message], tools: Optional[Sequence[Any]] = None,
                            documents: Optional[Sequence[Any]] = None, add_generation_prompt: bool = False,
                            continue_final_message: bool = False, tokenize: bool = True,
                            **kwargs: Any) -> Union[str, List[int]]:
        """Return the prompt of a conversation, like render_chat. tokenize: True to return token ids."""
        text = self.render_chat(conversation, tools, documents, add_generation_prompt, continue_final_message, **kwargs)
        return self.encode(text) if tokenize else text


class Job:
    """A request before its submission."""

    def __init__(self, number: int, text: Optional[str], ids: List[int], params: Optional[Params],
                 seed: Optional[int], is_text: bool = False) -> None:
        self.number, self.text, self.ids, self.is_text = number, text, ids, is_text
        self.sampling = params if isinstance(params, SamplingParams) else None
        self.pooling = params if isinstance(params, PoolingParams) else None
        self.json = self.sampling.to_json(seed) if self.sampling else json.dumps({"seed": seed}).encode()
        self.n = self.sampling.n if self.sampling else 1
        if params is not None and params.truncate_prompt_tokens:
            self.ids = self.ids[-params.truncate_prompt_tokens:]

    def rank(self, priority: int) -> None:
        """Set the priority. Requests with lower values are first if scheduler is "priority"."""
        if not isinstance(priority, int) or isinstance(priority, bool) or not -2**31 <= priority < 2**31:
            raise ValueError(f"priority: expected an integer of 32 bits, found {priority!r}")
        self.json = json.dumps({**json.loads(self.json), "priority": priority}).encode()

    def submit(self, queue: _lib.Queue) -> Optional[int]:
        """Submit the request. Return the request's number, or None if too many requests wait."""
        if self.pooling:
            text = self.text if self.is_text and not self.pooling.truncate_prompt_tokens else None
            return queue.submit(self.ids, b"{}", self.pooling.pooling.encode(), text.encode() if text is not None else None)
        return queue.submit(self.ids, self.json)


class Answer:
    """The output of one request, built from its events."""

    def __init__(self, model: "Model", job: Job, request_id: str) -> None:
        self.model, self.job = model, job
        self.choice: Dict[int, CompletionOutput] = {}
        has_prompt_logprobs = job.sampling is not None and job.sampling.prompt_logprobs is not None
        self.output = RequestOutput(request_id, job.text, job.ids, [], [None] if has_prompt_logprobs else None)
        self.embedding: Optional[List[float]] = None

    def completion(self, index: int) -> CompletionOutput:
        """Return the answer of the request with this index."""
        if index not in self.choice:
            has_logprobs = self.job.sampling is not None and self.job.sampling.logprobs is not None
            self.choice[index] = CompletionOutput(index, cumulative_logprob=0.0 if has_logprobs else None,
                                                  logprobs=[] if has_logprobs else None)
            self.output.outputs = [self.choice[i] for i in sorted(self.choice)]
        return self.choice[index]

    def _logprobs(self, event: _lib.Event) -> Dict[int, Logprob]:
        found: Dict[int, Logprob] = {}
        for p in event.logprobs[:event.n_logprob]:
            found.setdefault(p.id, Logprob(p.logprob, p.rank, self.model._token_text(p.id)))
        return found

    def take(self, event: _lib.Event) -> Optional[StreamOutput]:
        """Add an event. Return the new part, or None if the event has no part of an answer.
        QuothError: the model returned no finite numbers."""
        if event.kind == _lib.EVENT_PROMPT:
            if self.output.prompt_logprobs is not None:
                self.output.prompt_logprobs.append(self._logprobs(event))
            return None
        if event.kind == _lib.EVENT_DONE:
            self._end(event)
            if self.job.n > 1:
                return None
        completion, text = self.completion(event.choice), event.new_text()
        piece = StreamOutput(self.job.number, self.output.request_id, text, [], choice=event.choice)
        completion.text += text
        if event.kind == _lib.EVENT_TOKEN:
            piece.token_ids.append(event.token)
            completion.token_ids.append(event.token)
            if completion.logprobs is not None and completion.cumulative_logprob is not None:
                piece.logprobs = [self._logprobs(event)]
                completion.logprobs += piece.logprobs
                completion.cumulative_logprob += event.logprobs[0].logprob
        else:
            self._finish(event, completion, piece)
        return piece

    def _finish(self, event: _lib.Event, completion: CompletionOutput, piece: StreamOutput) -> None:
        reason = event.finish_reason.decode()
        if reason == "error":
            raise _lib.QuothError("the model returned no finite numbers" if self.job.pooling else
                                  "the model gave no token that may be picked")
        completion.finish_reason = piece.finish_reason = reason
        stop: Union[None, int, str] = event.stop_text.decode() if event.stop_text else None
        if stop is None and event.stop_token >= 0:
            stop = event.stop_token
        completion.stop_reason = piece.stop_reason = stop
        if event.end_token >= 0:  # as in vLLM: token_ids includes the end token, which has no text
            completion.token_ids.append(event.end_token)
            piece.token_ids.append(event.end_token)
        piece.finished = True

    def _end(self, event: _lib.Event) -> None:
        self.output.finished = True
        self.output.num_cached_tokens = event.n_cached_token
        self.output.metrics = RequestMetrics(event.queue_s, event.prefill_s, event.decode_s, event.n_output_token)
        if event.n_embedding:
            self.embedding = list(event.embedding[:event.n_embedding])

    def vector(self) -> EmbeddingRequestOutput:
        """Return the output of a request with PoolingParams."""
        if self.embedding is None:
            reason = self.output.outputs[0].finish_reason if self.output.outputs else None
            raise _lib.QuothError(f"the prompt was not pooled ({reason})")
        vector, n = self.embedding, self.job.pooling.dimensions if self.job.pooling else None
        if n is not None:
            if n > len(vector):
                raise ValueError(f"dimensions: expected an integer in [1, {len(vector)}], found {n}")
            vector = vector[:n]
            length = math.sqrt(sum(x * x for x in vector)) if self.model._normalizes else 0.0
            vector = [x / length for x in vector] if length > 0 else vector
        return EmbeddingRequestOutput(self.output.request_id, EmbeddingOutput(vector), self.job.ids,
                                      self.output.num_cached_tokens)


def refuse_lora(lora_request: object) -> None:
    """Raise ValueError unless lora_request is None."""
    if lora_request is not None:
        raise ValueError("lora_request: not supported yet")


class Model:
    """An open model."""

    _ITL_TARGET_MS = "none"

    def __init__(self, model: str, seed: Optional[int], options: Mapping[str, Any]) -> None:
        self._model: Optional[c_void_p] = None
        self._token_texts: Dict[int, str] = {}
        self._seed, self._n_request, self._lock = seed, itertools.count(), threading.Lock()
        texts = library_options(model, options, self._ITL_TARGET_MS)
        self._model = _lib.open_model(model, texts, names_given(options))
        info = self.info()
        self._normalizes, self._default_prompt = bool(info["normalize"]), info["default_prompt"] or ""
        self._pools_prompt = bool(info["include_prompt"])
        for line in info["warnings"]:
            warnings.warn(_lib.in_python(line), stacklevel=3)

    # ---- the open model ----

    def close(self) -> None:
        """Release the model and its memory. Requests in flight are cancelled. A second call has no
        effect."""
        with self._lock:
            model, self._model = self._model, None
        if model:
            _lib.lib.quoth_close(model)

    def __del__(self) -> None:
        if getattr(self, "_model", None):
            self.close()

    def _handle(self) -> c_void_p:
        if not self._model:
            raise _lib.QuothError("the model is closed")
        return self._model

    def info(self) -> Dict[str, Any]:
        """Return properties of the model: name, arch, context_max (tokens), n_vocab, n_param,
        weight_bytes, kv_bytes, ..."""
        info: Dict[str, Any] = json.loads(_lib.owned_text(_lib.lib.quoth_info(self._handle())))
        return info

    def stats(self) -> Dict[str, Any]:
        """Return the engine's statistics: running and waiting requests, tokens, cache hits, times
        in seconds."""
        stats: Dict[str, Any] = json.loads(_lib.owned_text(_lib.lib.quoth_stats(self._handle())))
        return stats

    def get_metrics(self) -> List[Metric]:
        """Return the engine's figures under the names of vLLM's /metrics, as Counter, Gauge and
        Histogram objects."""
        return read_metrics(_lib.owned_text(_lib.lib.quoth_metrics(self._handle())))

    def get_tokenizer(self) -> Tokenizer:
        """Return the model's tokenizer."""
        return Tokenizer(self)

    def get_default_sampling_params(self) -> SamplingParams:
        """Return SamplingParams without any argument."""
        return SamplingParams()

    def _reset_prefixes(self) -> bool:
        _lib.lib.quoth_reset_prefix_cache(self._handle())
        return True

    def _token_text(self, token: int) -> str:
        if token not in self._token_texts:
            self._token_texts[token] = _lib.detokenize(self._handle(), [token], False)
        return self._token_texts[token]

    # ---- prompts ----

    def _read_prompt(self, prompt: Any, name: str) -> Tuple[Optional[str], List[int]]:
        if isinstance(prompt, dict):
            if prompt.get("prompt_token_ids") is not None:
                return prompt.get("prompt"), list(prompt["prompt_token_ids"])
            prompt = prompt.get("prompt")
        if isinstance(prompt, str):
            return prompt, _lib.tokenize(self._handle(), prompt, _lib.ADD_SPECIAL | _lib.PARSE_SPECIAL)
        if isinstance(prompt, (list, tuple)):
            return None, list(prompt)
        raise ValueError(f"{name}: expected {_PROMPT_FORMS}, found {type(prompt).__name__}")

    def _job(self, prompt: Any, params: Optional[Params], number: int, name: str) -> Job:
        seed = None if self._seed is None else (self._seed + 0x9E3779B9 * next(self._n_request)) % 2**63
        text, ids = self._read_prompt(prompt, name)
        is_text = text is not None and not (isinstance(prompt, dict) and prompt.get("prompt_token_ids") is not None)
        if is_text and isinstance(params, PoolingParams) and self._default_prompt:
            if params.truncate_prompt_tokens and not self._pools_prompt:
                raise ValueError("truncate_prompt_tokens: not supported yet, because the model's pooling leaves out its prompt")
            _, ids = self._read_prompt(self._default_prompt + (text or ""), name)
        return Job(number, text, ids, params, seed, is_text)

    def _jobs(self, prompts: Any, params: Any, kind: Type[P], name: str) -> List[Job]:
        if not isinstance(prompts, (str, dict)) and not hasattr(prompts, "__iter__"):
            raise ValueError(f"prompts: expected {_PROMPT_FORMS}, or a list of prompts, found {type(prompts).__name__}")
        listed = [prompts] if isinstance(prompts, (str, dict)) else list(prompts)
        if listed and isinstance(listed[0], int):
            listed = [listed]
        every: List[Any] = [params] * len(listed) if params is None or isinstance(params, kind) else params
        if not isinstance(every, (list, tuple)):
            raise ValueError(f"{name}: expected {kind.__name__} or a list of them, found {type(every).__name__}")
        if len(every) != len(listed):
            raise ValueError(f"{name}: {len(every)} for {len(listed)} prompts")
        jobs = []
        for number, (prompt, p) in enumerate(zip(listed, every)):
            if p is not None and not isinstance(p, kind):
                raise ValueError(f"{name}[{number}]: expected {kind.__name__}, found {type(p).__name__}")
            jobs.append(self._job(prompt, p, number, f"prompts[{number}]"))
        return jobs

    def _chat_prompt(self, messages: Any, add_generation_prompt: bool, continue_final_message: bool,
                     tools: Optional[Sequence[Any]], kwargs: Optional[Mapping[str, Any]]) -> str:
        return self.get_tokenizer().render_chat(messages, tools=tools, add_generation_prompt=add_generation_prompt,
                                                continue_final_message=continue_final_message, **(kwargs or {}))


# ---- metrics ----

_TYPE = re.compile(r"# TYPE (\S+) (\S+)$")
_SERIES = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')


def _number(text: str) -> Union[int, float]:
    value = float(text)
    return int(value) if value.is_integer() else value


def read_metrics(text: str) -> List[Metric]:
    """Parse Prometheus' text format into objects."""
    kinds: Dict[str, str] = {}
    histograms: Dict[str, Histogram] = {}
    found: List[Metric] = []
    for line in text.splitlines():
        kind, series = _TYPE.match(line), _SERIES.match(line)
        if kind:
            kinds[kind.group(1)] = kind.group(2)
        if not series:
            continue
        name, value = series.group(1), _number(series.group(3))
        labels = {k: re.sub(r"\\(.)", lambda m: "\n" if m.group(1) == "n" else m.group(1), v)
                  for k, v in _LABEL.findall(series.group(2) or "")}
        base = re.sub("_(bucket|sum|count)$", "", name)
        if kinds.get(base) == "histogram":
            bound = labels.pop("le", None)
            key = base + json.dumps(labels)
            if key not in histograms:
                histograms[key] = Histogram(base, labels, 0, 0.0)
                found.append(histograms[key])
            if bound is not None:
                histograms[key].buckets[bound] = int(value)
            elif name.endswith("_sum"):
                histograms[key].sum = float(value)
            else:
                histograms[key].count = int(value)
        elif kinds.get(name) == "counter":
            found.append(Counter(name, labels, value))
        else:
            found.append(Gauge(name, labels, float(value)))
    return found
