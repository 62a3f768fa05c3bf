"""llm.py - LLM: a model, and many prompts at once.

    prompts --_jobs--> Job --_events: submit, poll--> events --Answer--> RequestOutput

Each call has a queue of its own, so several threads may generate with one LLM. Leaving a call early (an exception,
Ctrl-C, a stream that is not read to its end) cancels what it had under way."""
import time
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from . import _lib
from ._progress import UseTqdm, progress
from .model import Answer, Job, Message, Model, Prompt, refuse_lora
from .outputs import (BeamSearchOutput, BeamSearchSequence, EmbeddingRequestOutput, RequestOutput, StreamOutput)
from .params import BeamSearchParams, PoolingParams, SamplingParams

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .options import Options

Prompts = Union[Prompt, Sequence[Prompt]]
Params = Union[None, SamplingParams, Sequence[SamplingParams]]
Conversations = Union[Sequence[Message], Sequence[Sequence[Message]]]

_IN_FLIGHT = 512
_POLL_MS = 100  # how often a signal is looked for while nothing comes
_FULL_S = 0.01  # how long a full engine is left alone


class LLM(Model):
    """A model that is open for use: a .gguf file, a Hugging Face folder or a llama2.c file.

    options are those of the command line with _ for - (max_model_len, max_num_seqs, threads, kv_cache_dtype, chat_template,
    ...) and those of vLLM's that can be kept. seed: of requests that have none (None: random ones). Prompts are computed as
    fast as possible, which other answers' tokens wait for; itl_target_ms="auto" bounds that wait.

    Any threads may use one LLM at once. QuothError: the model cannot be opened or used; ValueError: an option or an argument
    is wrong, and the sentence begins with its name."""

    def __init__(self, model: str, seed: Optional[int] = 0, **options: "Unpack[Options]") -> None:
        super().__init__(model, seed, options)

    def __enter__(self) -> "LLM":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def reset_prefix_cache(self) -> bool:
        """Forget what is cached of prompts; True."""
        return self._reset_prefixes()

    # ---- generating ----

    def _events(self, jobs: List[Job]) -> Iterator[Tuple[Answer, _lib.Event]]:
        """(answer, event) of all jobs as they come."""
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
        """Complete prompts, many at once; outputs are in the prompts' order. A prompt is a text, a list of token ids, or a
        dict with prompt or prompt_token_ids. sampling_params: of all, or one each; None: as the model's authors recommend.
        use_tqdm: a progress bar on standard error, or a function to make one. priority: one for each prompt, lower goes
        first under scheduler="priority". ValueError names what is wrong."""
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
        """Answer a conversation (a list of messages in OpenAI's form), or several (a list of them). The answer is the text
        that the model wrote, reasoning and tool calls included. continue_final_message: it goes on with the last message,
        the assistant's."""
        prompts = self._chat_prompts(messages, add_generation_prompt, continue_final_message, tools,
                                     chat_template_kwargs)
        return self.generate(prompts, sampling_params, use_tqdm, lora_request=lora_request)

    def stream(self, prompts: Prompts, sampling_params: Params = None) -> Iterator[StreamOutput]:
        """As generate, in pieces as they come: for one prompt or several (piece.index is its number)."""
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
        """As chat, in pieces as they come."""
        prompts = self._chat_prompts(messages, add_generation_prompt, continue_final_message, tools,
                                     chat_template_kwargs)
        return self.stream(prompts, sampling_params)

    def beam_search(self, prompts: Prompts, params: BeamSearchParams,
                    use_tqdm: UseTqdm = False) -> List[BeamSearchOutput]:
        """The params.beam_width best continuations of each prompt, in the prompts' order."""
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
        """A vector of length 1 for each prompt, in the prompts' order: a pooled final hidden state."""
        every = PoolingParams() if pooling_params is None else pooling_params
        jobs = self._jobs(prompts, every, PoolingParams, "pooling_params")
        return [answer.vector() for answer in self._answers(jobs, use_tqdm)]
