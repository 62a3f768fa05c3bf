"""llm.py - LLM: a model, and many prompts at once.

    prompts --tokenize--> jobs --_events: submit, poll--> events --_Answer--> RequestOutput

Each call has a queue of its own, so several threads may generate with one LLM. Leaving a call early (an exception,
Ctrl-C, a stream that is not read to its end) cancels what it had under way."""
import itertools
import json
import threading
import time
from typing import Any, Dict, Iterator, List, Optional, Sequence, Union

from . import _lib
from ._progress import progress
from .outputs import CompletionOutput, Logprob, RequestOutput, StreamOutput
from .params import SamplingParams

Prompt = Union[str, List[int], Dict[str, Any]]
Params = Union[None, SamplingParams, Sequence[SamplingParams]]

_IN_FLIGHT = 512
_POLL_MS = 100  # how often a signal is looked for while nothing comes
_FULL_S = 0.01  # how long a full engine is left alone
_WITHOUT_MEANING = ("trust_remote_code", "enforce_eager", "disable_log_stats")  # of vLLM, accepted


def _option_text(name, value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return json.dumps(value)
    if isinstance(value, (str, int, float)):
        return str(value)
    raise ValueError(f"{name}: expected a text or a number, found {value!r}")


class Tokenizer:
    """Text and token ids of a model."""

    def __init__(self, llm):
        self._llm = llm
        info = llm.info()
        self.bos_token_id = info["bos_token_id"] if info["bos_token_id"] >= 0 else None
        self.eos_token_id = info["eos_token_id"] if info["eos_token_id"] >= 0 else None
        self.vocab_size = info["n_vocab"]
        self.chat_template = info["chat_template"]

    def encode(self, text: str, add_special_tokens: bool = True) -> List[int]:
        flags = _lib.PARSE_SPECIAL | (_lib.ADD_SPECIAL if add_special_tokens else 0)
        return _lib.tokenize(self._llm._handle(), text, flags)

    def decode(self, token_ids: Union[int, Sequence[int]], skip_special_tokens: bool = False) -> str:
        ids = [token_ids] if isinstance(token_ids, int) else list(token_ids)
        return _lib.detokenize(self._llm._handle(), ids, skip_special_tokens)

    def apply_chat_template(self, conversation, tools=None, documents=None, add_generation_prompt=False,
                            continue_final_message=False, tokenize=True, **kwargs) -> Union[str, List[int]]:
        body = {"messages": conversation, "tools": tools, "documents": documents,
                "add_generation_prompt": add_generation_prompt, "continue_final_message": continue_final_message}
        if kwargs:
            body["chat_template_kwargs"] = kwargs
        text = _lib.apply_chat_template(self._llm._handle(), json.dumps(body))
        return self.encode(text) if tokenize else text


class _Job:
    def __init__(self, number, text, ids, params, seed):
        self.number, self.text, self.ids = number, text, ids
        self.params, self.json = params, params.to_json(seed) if params else json.dumps({"seed": seed}).encode()
        if params and params.truncate_prompt_tokens:
            self.ids = self.ids[-params.truncate_prompt_tokens:]


class _Answer:
    """Events of one request become its output."""

    def __init__(self, llm, job, request_id):
        self.llm, self.job, self.choice, self.n = llm, job, {}, job.params.n if job.params else 1
        asks = job.params is not None and job.params.prompt_logprobs is not None
        self.output = RequestOutput(str(request_id), job.text, job.ids, [], [None] if asks else None)

    def completion(self, index):
        if index not in self.choice:
            wants = self.job.params is not None and self.job.params.logprobs is not None
            self.choice[index] = CompletionOutput(index, cumulative_logprob=0.0 if wants else None,
                                                  logprobs=[] if wants else None)
            self.output.outputs = [self.choice[i] for i in sorted(self.choice)]
        return self.choice[index]

    def logprobs(self, event):
        found = {}
        for p in event.logprobs[:event.n_logprob]:
            found.setdefault(p.id, Logprob(p.logprob, p.rank, self.llm._token_text(p.id)))
        return found

    def take(self, event):
        """What is new, as a StreamOutput; None: nothing of the answer."""
        if event.kind == _lib.EVENT_PROMPT:
            self.output.prompt_logprobs.append(self.logprobs(event))
            return None
        if event.kind == _lib.EVENT_DONE:
            self.end(event)
            if self.n > 1:
                return None
        completion, text = self.completion(event.choice), event.new_text()
        piece = StreamOutput(self.job.number, self.output.request_id, text, [], choice=event.choice)
        completion.text += text
        if event.kind == _lib.EVENT_TOKEN:
            piece.token_ids.append(event.token)
            completion.token_ids.append(event.token)
            if completion.logprobs is not None:
                piece.logprobs = [self.logprobs(event)]
                completion.logprobs += piece.logprobs
                completion.cumulative_logprob += event.logprobs[0].logprob
        else:
            self.finish(event, completion, piece)
        return piece

    def finish(self, event, completion, piece):
        reason = event.finish_reason.decode()
        if reason == "error":
            raise _lib.QuothError("the model gave no token that may be picked")
        completion.finish_reason = piece.finish_reason = reason
        stop = event.stop_text.decode() if event.stop_text else event.stop_token if event.stop_token >= 0 else None
        completion.stop_reason = piece.stop_reason = stop
        piece.finished = True

    def end(self, event):
        self.output.finished = True
        self.output.num_cached_tokens = event.n_cached_token
        self.output.metrics = {"queue": event.queue_s, "prefill": event.prefill_s, "decode": event.decode_s}


class LLM:
    """A model that is open for use. `model` is a .gguf file, a Hugging Face folder or a llama2.c file; options are
    those of the command line (max_model_len, max_num_seqs, threads, kv_cache_dtype, chat_template, ...). seed: of
    requests that have none (None: random ones). Prompts are computed as fast as they can be, which other answers'
    tokens wait for: who streams to readers gives itl_target_ms="auto"."""

    def __init__(self, model: str, seed: Optional[int] = 0, **options):
        self._model = None
        self._token_texts: Dict[int, str] = {}
        self._seed, self._n_request, self._lock = seed, itertools.count(), threading.Lock()
        if options.pop("tensor_parallel_size", 1) != 1:
            raise ValueError("tensor_parallel_size: expected 1")
        options = {"itl_target_ms": "none", **options}
        texts = {k: _option_text(k, v) for k, v in options.items() if v is not None and k not in _WITHOUT_MEANING}
        self._model = _lib.open_model(model, texts)

    # ---- life ----

    def close(self):
        with self._lock:
            model, self._model = self._model, None
        if model:
            _lib.lib.quoth_close(model)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        if getattr(self, "_model", None):
            self.close()

    def _handle(self):
        if not self._model:
            raise _lib.QuothError("the model is closed")
        return self._model

    def info(self) -> Dict[str, Any]:
        return json.loads(_lib.owned_text(_lib.lib.quoth_info(self._handle())))

    def stats(self) -> Dict[str, Any]:
        """What the engine counts: running and waiting requests, tokens, cache hits, times."""
        return json.loads(_lib.owned_text(_lib.lib.quoth_stats(self._handle())))

    def get_tokenizer(self) -> Tokenizer:
        return Tokenizer(self)

    def get_default_sampling_params(self) -> SamplingParams:
        return SamplingParams()

    def _token_text(self, token):
        if token not in self._token_texts:
            self._token_texts[token] = _lib.detokenize(self._handle(), [token], False)
        return self._token_texts[token]

    # ---- prompts ----

    def _read_prompt(self, prompt, number):
        if isinstance(prompt, dict):
            if "prompt_token_ids" in prompt:
                return prompt.get("prompt"), list(prompt["prompt_token_ids"])
            prompt = prompt.get("prompt")
        if isinstance(prompt, str):
            return prompt, _lib.tokenize(self._handle(), prompt, _lib.ADD_SPECIAL | _lib.PARSE_SPECIAL)
        if isinstance(prompt, (list, tuple)):
            return None, list(prompt)
        raise ValueError(f"prompts[{number}]: expected a text, token ids, or a dict with prompt or prompt_token_ids, "
                         f"found {type(prompt).__name__}")

    def _jobs(self, prompts, params: Params) -> List[_Job]:
        single = isinstance(prompts, (str, dict)) or (bool(prompts) and isinstance(prompts[0], int))
        prompts = [prompts] if single else list(prompts)
        if params is None or isinstance(params, SamplingParams):
            params = [params] * len(prompts)
        if len(params) != len(prompts):
            raise ValueError(f"sampling_params: {len(params)} for {len(prompts)} prompts")
        jobs = []
        for number, (prompt, p) in enumerate(zip(prompts, params)):
            if p is not None and not isinstance(p, SamplingParams):
                raise ValueError(f"sampling_params[{number}]: expected SamplingParams, found {type(p).__name__}")
            seed = None if self._seed is None else (self._seed + 0x9E3779B9 * next(self._n_request)) % 2**63
            jobs.append(_Job(number, *self._read_prompt(prompt, number), p, seed))
        return jobs

    def _chat_prompts(self, messages, add_generation_prompt, continue_final_message, tools, kwargs):
        if not isinstance(messages, (list, tuple)) or not messages:
            raise ValueError("messages: expected a list of messages, or a list of such lists")
        single = isinstance(messages[0], dict)
        return [self.get_tokenizer().apply_chat_template(
            m, tools=tools, tokenize=False, add_generation_prompt=add_generation_prompt,
            continue_final_message=continue_final_message, **(kwargs or {})) for m in ([messages] if single else messages)]

    # ---- generating ----

    def _events(self, jobs) -> Iterator:
        """(answer, event) of all jobs as they come."""
        queue, answers, waiting, again = _lib.Queue(self._handle()), {}, list(reversed(jobs)), 0
        try:
            while waiting or answers:
                while waiting and len(answers) < _IN_FLIGHT and time.monotonic() >= again:
                    number = queue.submit(waiting[-1].ids, waiting[-1].json)
                    if number is None:
                        again = time.monotonic() + _FULL_S
                        break
                    answers[number] = _Answer(self, waiting.pop(), number)
                if not answers:
                    time.sleep(_FULL_S)
                    continue
                event = queue.poll(_POLL_MS)
                if event is None:
                    continue
                answer = answers[event.id]
                if event.kind == _lib.EVENT_DONE:
                    del answers[event.id]
                yield answer, event
        finally:
            queue.close()

    def _generate(self, jobs, use_tqdm) -> List[RequestOutput]:
        outputs: List[Optional[RequestOutput]] = [None] * len(jobs)
        with progress(len(jobs), use_tqdm) as done:
            for answer, event in self._events(jobs):
                answer.take(event)
                if event.kind == _lib.EVENT_DONE:
                    outputs[answer.job.number] = answer.output
                    done(event.n_prompt_token, event.n_output_token)
        return outputs

    def generate(self, prompts: Union[Prompt, Sequence[Prompt]], sampling_params: Params = None,
                 use_tqdm: bool = True) -> List[RequestOutput]:
        """Complete prompts, many at once; outputs are in the prompts' order. sampling_params: of all, or one each;
        None: as the model's authors recommend."""
        return self._generate(self._jobs(prompts, sampling_params), use_tqdm)

    def chat(self, messages, sampling_params: Params = None, use_tqdm: bool = True, *,
             add_generation_prompt: bool = True, continue_final_message: bool = False, tools: Optional[List] = None,
             chat_template_kwargs: Optional[Dict[str, Any]] = None) -> List[RequestOutput]:
        """Answer a conversation (a list of messages), or several (a list of them)."""
        prompts = self._chat_prompts(messages, add_generation_prompt, continue_final_message, tools,
                                     chat_template_kwargs)
        return self.generate(prompts, sampling_params, use_tqdm)

    def stream(self, prompts: Union[Prompt, Sequence[Prompt]],
               sampling_params: Params = None) -> Iterator[StreamOutput]:
        """The same in pieces, as they come: for one prompt or several (piece.index says which)."""
        for answer, event in self._events(self._jobs(prompts, sampling_params)):
            piece = answer.take(event)
            if piece is not None and (piece.text or piece.token_ids or piece.finished):
                yield piece

    def stream_chat(self, messages, sampling_params: Params = None, *, add_generation_prompt: bool = True,
                    continue_final_message: bool = False, tools: Optional[List] = None,
                    chat_template_kwargs: Optional[Dict[str, Any]] = None) -> Iterator[StreamOutput]:
        prompts = self._chat_prompts(messages, add_generation_prompt, continue_final_message, tools,
                                     chat_template_kwargs)
        return self.stream(prompts, sampling_params)
