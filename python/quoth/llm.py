"""llm.py - LLM: a model that computes many prompts concurrently.

    prompts --_jobs--> Job --_events: submit, poll--> events --Answer--> RequestOutput

Each call has a separate queue, so several threads may generate with one LLM. If a call ends early,
its requests in flight are cancelled. Causes are an exception, Ctrl-C, or a stream that is not read
to its end."""
import time
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from . import _lib
from ._progress import UseTqdm, progress
from .model import Answer, Job, Message, Model, Prompt, refuse_lora
from .outputs import (BeamSearchOutput, BeamSearchSequence, ClassificationOutput, ClassificationRequestOutput,
                      EmbeddingRequestOutput, PoolingOutput, PoolingRequestOutput, RequestOutput, ScoringOutput,
                      ScoringRequestOutput, StreamOutput)
from .params import BeamSearchParams, PoolingParams, SamplingParams

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .options import Options

Prompts = Union[Prompt, Sequence[Prompt]]
Params = Union[None, SamplingParams, Sequence[SamplingParams]]
Conversations = Union[Sequence[Message], Sequence[Sequence[Message]]]

_IN_FLIGHT = 512
_POLL_MS = 100  # interval of checks for signals if no event arrives
_PORTION = 32  # number of texts per call of the library, because signals do not interrupt a call
_FULL_S = 0.01  # delay of the next attempt if the engine is full


class LLM(Model):
    """An open model: a .gguf file, a Hugging Face folder or a llama2.c file.

    options are those of the command line with _ for - (max_model_len, max_num_seqs, threads,
    kv_cache_dtype, chat_template, ...), and the supported options of vLLM. seed: seed of requests
    without a seed (None: random seeds). Prompts are computed as fast as possible, which delays the
    tokens of running answers. itl_target_ms="auto" limits the delay.

    Several threads may use one LLM concurrently. QuothError: the model cannot be opened or used.
    ValueError: an option or an argument is invalid. The error's sentence begins with the name
    of the option or argument."""

    def __init__(self, model: str, seed: Optional[int] = 0, **options: "Unpack[Options]") -> None:
        super().__init__(model, seed, options)

    def __enter__(self) -> "LLM":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def reset_prefix_cache(self) -> bool:
        """Drop the prefix cache. Return True."""
        return self._reset_prefixes()

    # ---- generating ----

    def _events(self, jobs: List[Job]) -> Iterator[Tuple[Answer, _lib.Event]]:
        """Yield (answer, event) of all jobs as they arrive."""
        queue, waiting, again = _lib.Queue(self._handle()), list(reversed(jobs)), 0.0
        answers: Dict[int, Answer] = {}
        try:
            while waiting or answers:
                while waiting and len(answers) < _IN_FLIGHT and time.monotonic() >= again:
                    number = waiting[-1].submit(queue)
                    if number is None:
                        again = time.monotonic() + _FULL_S
                        break
                    answers[number] = Answer(self, waiting.pop(), str(number))
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

    def _answers(self, jobs: List[Job], use_tqdm: UseTqdm) -> List[Answer]:
        done: Dict[int, Answer] = {}
        with progress(len(jobs), use_tqdm) as advance:
            for answer, event in self._events(jobs):
                answer.take(event)
                if event.kind == _lib.EVENT_DONE:
                    done[answer.job.number] = answer
                    advance(event.n_prompt_token, event.n_output_token)
        return [done[number] for number in range(len(jobs))]

    def generate(self, prompts: Prompts, sampling_params: Params = None, use_tqdm: UseTqdm = True, *,
                 lora_request: None = None, priority: Optional[Sequence[int]] = None) -> List[RequestOutput]:
        """Complete many prompts concurrently. Outputs are in the prompts' order. A prompt is a
        text, a list of token ids, or a dict with prompt or prompt_token_ids. sampling_params:
        parameters for all prompts, or a list with parameters for each prompt; None: the values that
        the model's authors recommend. use_tqdm: True for a progress bar on standard error, or a
        function that makes a progress bar. priority: a number for each prompt; lower values are
        first if scheduler is "priority". A ValueError contains the name of the invalid argument."""
        refuse_lora(lora_request)
        jobs = self._jobs(prompts, sampling_params, SamplingParams, "sampling_params")
        if priority is not None and len(priority) != len(jobs):
            raise ValueError(f"priority: {len(priority)} for {len(jobs)} prompts")
        for job, rank in zip(jobs, priority or ()):
            job.rank(rank)
        return [answer.output for answer in self._answers(jobs, use_tqdm)]

    def _chat_prompts(self, messages: Any, add_generation_prompt: bool, continue_final_message: bool,
                      tools: Optional[Sequence[Any]], kwargs: Optional[Mapping[str, Any]]) -> List[Prompt]:
        if not isinstance(messages, (list, tuple)) or not messages:
            raise ValueError("messages: expected a list of messages, or a list of such lists")
        single = isinstance(messages[0], dict)
        return [self._chat_prompt(m, add_generation_prompt, continue_final_message, tools, kwargs)
                for m in ([messages] if single else messages)]

    def chat(self, messages: Conversations, sampling_params: Params = None, use_tqdm: UseTqdm = True, *,
             add_generation_prompt: bool = True, continue_final_message: bool = False,
             tools: Optional[Sequence[Any]] = None, chat_template_kwargs: Optional[Mapping[str, Any]] = None,
             lora_request: None = None) -> List[RequestOutput]:
        """Answer a conversation (a list of messages in OpenAI's form), or a list of conversations.
        The answer is the text that the model wrote, including reasoning and tool calls.
        continue_final_message: True if the answer continues the last message, which must be a
        message of the assistant."""
        prompts = self._chat_prompts(messages, add_generation_prompt, continue_final_message, tools,
                                     chat_template_kwargs)
        return self.generate(prompts, sampling_params, use_tqdm, lora_request=lora_request)

    def stream(self, prompts: Prompts, sampling_params: Params = None) -> Iterator[StreamOutput]:
        """Complete one or more prompts, and yield pieces as they arrive. piece.index is the number of
        the piece's prompt."""
        jobs = self._jobs(prompts, sampling_params, SamplingParams, "sampling_params")
        return self._pieces(jobs)

    def _pieces(self, jobs: List[Job]) -> Iterator[StreamOutput]:
        for answer, event in self._events(jobs):
            piece = answer.take(event)
            if piece is not None and (piece.text or piece.token_ids or piece.finished):
                yield piece

    def stream_chat(self, messages: Conversations, sampling_params: Params = None, *,
                    add_generation_prompt: bool = True, continue_final_message: bool = False,
                    tools: Optional[Sequence[Any]] = None,
                    chat_template_kwargs: Optional[Mapping[str, Any]] = None) -> Iterator[StreamOutput]:
        """Answer a conversation, and yield pieces as they arrive."""
        prompts = self._chat_prompts(messages, add_generation_prompt, continue_final_message, tools,
                                     chat_template_kwargs)
        return self.stream(prompts, sampling_params)

    def beam_search(self, prompts: Prompts, params: BeamSearchParams,
                    use_tqdm: UseTqdm = False) -> List[BeamSearchOutput]:
        """Return the params.beam_width best continuations of each prompt, in the prompts' order."""
        if not isinstance(params, BeamSearchParams):
            raise ValueError(f"params: expected BeamSearchParams, found {type(params).__name__}")
        tokenizer, found = self.get_tokenizer(), []
        for output in self.generate(prompts, params.sampling_params(), use_tqdm):
            found.append(BeamSearchOutput([
                BeamSearchSequence(output.prompt_token_ids + c.token_ids, c.cumulative_logprob or 0.0,
                                   tokenizer.decode(output.prompt_token_ids + c.token_ids), c.finish_reason,
                                   c.stop_reason) for c in output.outputs]))
        return found

    def embed(self, prompts: Prompts, *, use_tqdm: UseTqdm = True,
              pooling_params: Union[None, PoolingParams, Sequence[PoolingParams]] = None
              ) -> List[EmbeddingRequestOutput]:
        """Return the pooled final hidden state of each prompt as a vector, in the prompts' order. The
        vector has length 1 if the model's modules.json normalizes, or if the model has none. The
        model's default prompt precedes each prompt that is a text."""
        every = PoolingParams() if pooling_params is None else pooling_params
        jobs = self._jobs(prompts, every, PoolingParams, "pooling_params")
        if any(job.pooling and job.pooling.use_activation is not None for job in jobs):
            raise ValueError("use_activation: only for classifiers and scores")
        return [answer.vector() for answer in self._answers(jobs, use_tqdm)]

    # ---- classifiers and scores ----

    def _pool(self, url: str, body: Mapping[str, Any], lists: Mapping[str, Sequence[Any]],
              use_tqdm: UseTqdm) -> List[Dict[str, Any]]:
        """Return the items of the answer to a body. The lists of the body are computed in portions."""
        n, found = len(next(iter(lists.values()))), []  # type: int, List[Dict[str, Any]]
        with progress(n, use_tqdm) as advance:
            for at in range(0, n, _PORTION):
                part = {key: value[at:at + _PORTION] for key, value in lists.items()}
                answer = _lib.pool(self._handle(), url, {**body, **part})
                while answer is None:
                    time.sleep(_FULL_S)
                    answer = _lib.pool(self._handle(), url, {**body, **part})
                found += answer["data"]
                for _ in answer["data"]:
                    advance(answer["usage"]["prompt_tokens"] // len(answer["data"]), 0)
        return found

    @staticmethod
    def _pool_body(params: Optional[PoolingParams], truncate: Optional[int] = None) -> Dict[str, Any]:
        params = params or PoolingParams()
        if not isinstance(params, PoolingParams):
            raise ValueError(f"pooling_params: expected PoolingParams, found {type(params).__name__}")
        if params.pooling != "auto" or params.dimensions is not None:
            raise ValueError("pooling_params: pooling and dimensions are only for embed")
        body: Dict[str, Any] = {"truncate_prompt_tokens": truncate or params.truncate_prompt_tokens,
                                "use_activation": params.use_activation}
        return {key: value for key, value in body.items() if value is not None}

    def _pool_prompts(self, url: str, body: Mapping[str, Any], prompts: Prompts,
                      use_tqdm: UseTqdm) -> List[Tuple[List[int], Dict[str, Any]]]:
        jobs = self._jobs(prompts, PoolingParams(), PoolingParams, "pooling_params")
        texts = [job.text if job.is_text and job.text else job.ids for job in jobs]
        items = self._pool(url, body, {"input": texts}, use_tqdm) if jobs else []
        return list(zip((job.ids for job in jobs), items))

    def classify(self, prompts: Prompts, *, use_tqdm: UseTqdm = True, pooling_params: Optional[PoolingParams] = None,
                 lora_request: None = None) -> List[ClassificationRequestOutput]:
        """Return the probabilities of a classifier's labels for each prompt, in the prompts' order.
        ValueError: the model is not a classifier."""
        refuse_lora(lora_request)
        found = self._pool_prompts("/classify", self._pool_body(pooling_params), prompts, use_tqdm)
        return [ClassificationRequestOutput(str(i), ClassificationOutput(item["probs"]), ids)
                for i, (ids, item) in enumerate(found)]

    def encode(self, prompts: Prompts, pooling_params: Optional[PoolingParams] = None, *, use_tqdm: UseTqdm = True,
               lora_request: None = None, pooling_task: Optional[str] = None) -> List[PoolingRequestOutput]:
        """Return the result of a pooling task for each prompt, in the prompts' order. pooling_task:
        "embed", "classify", "score" or "token_embed" (a vector per token); None: "classify" if the
        model is a classifier, otherwise "embed"."""
        refuse_lora(lora_request)
        body = self._pool_body(pooling_params)
        if pooling_task is not None:
            body["task"] = pooling_task
        found = self._pool_prompts("/pooling", body, prompts, use_tqdm)
        return [PoolingRequestOutput(str(i), PoolingOutput(item["data"]), ids) for i, (ids, item) in enumerate(found)]

    def score(self, data_1: Union[str, Sequence[str]], data_2: Union[str, Sequence[str]], /, *,
              truncate_prompt_tokens: Optional[int] = None, use_tqdm: UseTqdm = True,
              pooling_params: Optional[PoolingParams] = None,
              lora_request: None = None) -> List[ScoringRequestOutput]:
        """Return the scores of pairs of texts: of each data_1 with its data_2, or of one data_1 with
        all texts of data_2. A classifier with one label computes each pair as one text. For a model
        of embeddings, a score is the cosine of two vectors. ValueError: the model cannot compute
        scores."""
        refuse_lora(lora_request)
        first, second = ([x] if isinstance(x, str) else list(x) for x in (data_1, data_2))
        if len(first) == 1:
            first = first * len(second)
        if len(first) != len(second) or not second:
            raise ValueError(f"data_1: expected 1 text, or as many as data_2 ({len(second)}), found {len(first)}")
        items = self._pool("/v1/score", self._pool_body(pooling_params, truncate_prompt_tokens),
                           {"text_1": first, "text_2": second}, use_tqdm)
        return [ScoringRequestOutput(str(i), ScoringOutput(item["score"])) for i, item in enumerate(items)]
