"""async_llm.py - AsyncLLM: answers as asynchronous generators, for programs that use asyncio.

    generate() --_commands--> worker thread: submit, poll --> Answer --call_soon_threadsafe--> generate() yields

One thread with the library's queue serves all requests without a constraint. A request has
an asyncio.Event and an Answer that the thread fills. A slow reader gets all text since its last
output in one output, so that outputs do not accumulate. A constraint is compiled at submission,
which may take a second. Therefore up to _HELD_MAX other threads serve requests with a constraint."""
import asyncio
import collections
import copy
import threading
import time
from typing import TYPE_CHECKING, Any, AsyncGenerator, Deque, Dict, List, Mapping, Optional, Sequence

from . import _lib
from .model import Answer, Job, Message, Model, Prompt, refuse_lora
from .outputs import CompletionOutput, EmbeddingRequestOutput, RequestOutput
from .params import PoolingParams, RequestOutputKind, SamplingParams

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .options import Options

_IN_FLIGHT = 512
_POLL_MS = 100
_FULL_S = 0.01
_HELD_MAX = 8
_LONG_TEXT = 20000  # maximum length of a prompt that is tokenized on the loop's thread


class _Stream:
    """A request, which its reader (the thread of a loop) and the worker share. The worker owns
    `answer` while it holds `lock`."""

    def __init__(self, model: Model, job: Job, request_id: str) -> None:
        self.job, self.answer = job, Answer(model, job, request_id)
        self.lock, self.ready, self.loop = threading.Lock(), asyncio.Event(), asyncio.get_running_loop()
        self.number: Optional[int] = None  # owned by the worker: number in the library
        self.worker: Optional["_Worker"] = None
        self.reported = self.done = self.cancelled = False
        self.error: Optional[BaseException] = None
        # owned by the reader, for DELTA: lengths of the delivered parts
        self.delivered: Dict[int, CompletionOutput] = {}

    # ---- the worker's side ----

    def take(self, event: _lib.Event) -> None:
        with self.lock:
            try:
                self.answer.take(event)
            except BaseException as e:  # the reader raises every exception
                self.error = e
            self.done |= event.kind == _lib.EVENT_DONE
        self.notify()

    def fail(self, error: BaseException) -> None:
        with self.lock:
            self.error, self.done = error, True
        self.notify()

    def abort(self) -> None:
        """End the request before its submission."""
        with self.lock:
            for i in range(self.job.n):
                self.answer.completion(i).finish_reason = "abort"
            self.answer.output.finished = self.done = True
        self.notify()

    def notify(self) -> None:
        with self.lock:
            if self.reported:
                return
            self.reported = True
        try:
            self.loop.call_soon_threadsafe(self.ready.set)
        except RuntimeError:  # the loop is closed, so there is no reader
            self.cancelled = True

    # ---- the reader's side ----

    async def wait(self) -> bool:
        """Wait for new events. Return True if the last event arrived."""
        await self.ready.wait()
        self.ready.clear()
        with self.lock:
            self.reported = False
            if self.error is not None:
                raise self.error
            return self.done

    def output(self, delta: bool) -> RequestOutput:
        with self.lock:
            output = copy.copy(self.answer.output)
            output.outputs = [self._part(c, delta) for c in output.outputs]
            if output.prompt_logprobs is not None:
                output.prompt_logprobs = list(output.prompt_logprobs)
            return output

    def _part(self, c: CompletionOutput, delta: bool) -> CompletionOutput:
        part = copy.copy(c)
        text, n = 0, 0
        if delta and c.index in self.delivered:
            text, n = len(self.delivered[c.index].text), len(self.delivered[c.index].token_ids)
        part.text, part.token_ids = c.text[text:], c.token_ids[n:]
        part.logprobs = None if c.logprobs is None else c.logprobs[n:]
        if delta:
            self.delivered[c.index] = CompletionOutput(c.index, c.text, list(c.token_ids))
        return part


class _Worker(threading.Thread):
    """Thread that submits the requests of streams and distributes events."""

    def __init__(self, model: Model) -> None:
        super().__init__(name="quoth-async", daemon=True)
        self._queue = _lib.Queue(model._handle())
        self._handle = model._handle()
        self._change = threading.Condition()
        self._new: Deque[_Stream] = collections.deque()
        self._cancelled: Deque[_Stream] = collections.deque()
        self._closing = False
        self.n_stream = 0  # number of streams with a reader
        self.start()

    # ---- any thread ----

    def _wake(self) -> None:
        self._change.notify()
        if not self._closing:
            self._queue.wake()

    def add(self, stream: _Stream) -> None:
        with self._change:
            if self._closing:
                raise _lib.QuothError("the model is closed")
            self._new.append(stream)
            self._wake()

    def cancel(self, stream: _Stream, discard: bool) -> None:
        """End a request. discard: True if the request's events are not read. False: the reader
        receives the end of the request."""
        stream.cancelled |= discard
        with self._change:
            if self._closing:
                return
            self._cancelled.append(stream)
            self._wake()

    def stop(self) -> None:
        with self._change:
            if not self._closing:
                self._wake()
                self._closing = True
        self.join()

    # ---- the thread ----

    def run(self) -> None:
        waiting: Deque[_Stream] = collections.deque()
        flying: Dict[int, _Stream] = {}
        end: BaseException = _lib.QuothError("the model is closed")
        try:
            self._serve(waiting, flying)
        except BaseException as e:  # the error ends the wait of every reader
            end = e
        with self._change:
            self._closing = True
            waiting.extend(self._new)
        self._queue.close()
        for stream in list(flying.values()) + list(waiting):
            stream.fail(end)

    def _serve(self, waiting: Deque[_Stream], flying: Dict[int, _Stream]) -> None:
        again = 0.0
        while self._commands(waiting, flying):
            if waiting and time.monotonic() >= again:
                again = self._submit(waiting, flying)
            if flying:
                self._poll(flying, int(_FULL_S * 1000) if waiting else _POLL_MS)
            elif waiting:
                time.sleep(_FULL_S)

    def _commands(self, waiting: Deque[_Stream], flying: Dict[int, _Stream]) -> bool:
        with self._change:
            while not (self._new or self._cancelled or self._closing or waiting or flying):
                self._change.wait()
            new, self._new = self._new, collections.deque()
            cancelled, self._cancelled = self._cancelled, collections.deque()
            closing = self._closing
        waiting.extend(new)
        for stream in cancelled:
            if stream.number is not None and stream.number in flying:
                _lib.lib.quoth_cancel(self._handle, stream.number)
            elif stream in waiting:
                waiting.remove(stream)
                stream.abort()
        return not closing

    def _submit(self, waiting: Deque[_Stream], flying: Dict[int, _Stream]) -> float:
        while waiting and len(flying) < _IN_FLIGHT:
            stream = waiting[0]
            if stream.cancelled:
                waiting.popleft()
                continue
            try:
                stream.number = stream.job.submit(self._queue)
            except Exception as e:  # the error ends only this request
                stream.fail(e)
                waiting.popleft()
                continue
            if stream.number is None:
                return time.monotonic() + _FULL_S
            flying[stream.number] = stream
            waiting.popleft()
        return 0.0

    def _poll(self, flying: Dict[int, _Stream], timeout_ms: int) -> None:
        event = self._queue.poll(timeout_ms)
        while event is not None:
            stream = flying[event.id]
            if event.kind == _lib.EVENT_DONE:
                del flying[event.id]
            if not stream.cancelled:
                stream.take(event)
            event = self._queue.poll(0) if flying and not (self._new or self._cancelled or self._closing) else None


class AsyncLLM(Model):
    """A model for programs that use asyncio. Arguments and errors are those of LLM. The delay of
    running answers by new prompts is limited (itl_target_ms "auto").

    Any number of tasks may generate concurrently, on any loops. One thread serves all tasks.
    Cancelling a task, or closing a generator (aclose), cancels the request."""

    _ITL_TARGET_MS = "auto"

    def __init__(self, model: str, seed: Optional[int] = 0, **options: "Unpack[Options]") -> None:
        self._worker: Optional[_Worker] = None
        self._held: List[_Worker] = []  # for requests with a constraint
        self._lock = threading.Lock()
        super().__init__(model, seed, options)
        self._worker = _Worker(self)
        self._streams: Dict[str, _Stream] = {}

    async def __aenter__(self) -> "AsyncLLM":
        return self

    async def __aexit__(self, *_: object) -> None:
        self.shutdown()

    def shutdown(self) -> None:
        """Release the model and its memory. Requests in flight end with QuothError."""
        with self._lock:
            workers = [*([self._worker] if self._worker else []), *self._held]
            self._worker, self._held = None, []
        for worker in workers:
            worker.stop()
        super().close()

    def close(self) -> None:
        """Release the model and its memory, like shutdown."""
        self.shutdown()

    async def reset_prefix_cache(self) -> bool:
        """Drop the prefix cache. Return True."""
        return self._reset_prefixes()

    # ---- requests ----

    def _worker_for(self, job: Job) -> _Worker:
        """Return the thread for a request. A request with a constraint gets the thread with the
        fewest requests of this kind."""
        with self._lock:
            if self._worker is None:
                raise _lib.QuothError("the model is closed")
            if job.sampling is None or not (job.sampling.structured_outputs or job.sampling.guided_decoding):
                return self._worker
            best = min(self._held, key=lambda w: w.n_stream, default=None)
            if best is None or (best.n_stream > 0 and len(self._held) < _HELD_MAX):
                best = _Worker(self)
                self._held.append(best)
            best.n_stream += 1
            return best

    async def _open(self, prompt: Any, params: Any, request_id: Optional[str], priority: int = 0) -> _Stream:
        if self._worker is None:
            raise _lib.QuothError("the model is closed")
        text = prompt.get("prompt") if isinstance(prompt, dict) else prompt
        if isinstance(text, str) and len(text) > _LONG_TEXT:
            loop = asyncio.get_running_loop()
            job = await loop.run_in_executor(None, self._job, prompt, params, 0, "prompt")
        else:
            job = self._job(prompt, params, 0, "prompt")
        if priority:
            job.rank(priority)
        name = request_id if request_id is not None else f"{id(job):x}-{next(self._n_request)}"
        if name in self._streams:
            raise ValueError(f"request_id: {name!r} is in use")
        stream = _Stream(self, job, name)
        stream.worker = self._worker_for(job)
        stream.worker.add(stream)
        self._streams[name] = stream
        return stream

    def _leave(self, stream: _Stream) -> None:
        self._streams.pop(stream.answer.output.request_id, None)
        if stream.worker is None:
            return
        with self._lock:
            stream.worker.n_stream -= 1
        if not stream.done:
            stream.worker.cancel(stream, discard=True)

    async def generate(self, prompt: Prompt, sampling_params: Optional[SamplingParams] = None,
                       request_id: Optional[str] = None, *, lora_request: None = None,
                       priority: int = 0) -> AsyncGenerator[RequestOutput, None]:
        """Complete a prompt and yield outputs as they arrive. Arguments are those of LLM.generate
        for one prompt. `finished` is True in the last output. sampling_params.output_kind selects
        the content of each output: the answer so far, the new part, or only the complete answer.
        request_id: name of the request for abort, unique among requests in flight. priority:
        requests with lower values are first if scheduler is "priority"."""
        refuse_lora(lora_request)
        if sampling_params is not None and not isinstance(sampling_params, SamplingParams):
            raise ValueError(f"sampling_params: expected SamplingParams, found {type(sampling_params).__name__}")
        kind = sampling_params.output_kind if sampling_params else RequestOutputKind.CUMULATIVE
        stream = await self._open(prompt, sampling_params, request_id, priority)
        try:
            done = False
            while not done:
                done = await stream.wait()
                if done or kind is not RequestOutputKind.FINAL_ONLY:
                    yield stream.output(kind is RequestOutputKind.DELTA)
        finally:
            self._leave(stream)

    async def chat(self, messages: Sequence[Message], sampling_params: Optional[SamplingParams] = None,
                   request_id: Optional[str] = None, *, add_generation_prompt: bool = True,
                   continue_final_message: bool = False, tools: Optional[Sequence[Any]] = None,
                   chat_template_kwargs: Optional[Mapping[str, Any]] = None) -> AsyncGenerator[RequestOutput, None]:
        """Answer a conversation (a list of messages in OpenAI's form). Outputs are those of generate."""
        if not isinstance(messages, (list, tuple)) or not messages:
            raise ValueError("messages: expected a list of messages")
        prompt = self._chat_prompt(messages, add_generation_prompt, continue_final_message, tools, chat_template_kwargs)
        outputs = self.generate(prompt, sampling_params, request_id)
        try:
            async for output in outputs:
                yield output
        finally:
            await outputs.aclose()

    async def embed(self, prompt: Prompt, pooling_params: Optional[PoolingParams] = None,
                    request_id: Optional[str] = None) -> EmbeddingRequestOutput:
        """Return the prompt's vector, as LLM.embed."""
        if pooling_params is not None and not isinstance(pooling_params, PoolingParams):
            raise ValueError(f"pooling_params: expected PoolingParams, found {type(pooling_params).__name__}")
        stream = await self._open(prompt, pooling_params or PoolingParams(), request_id)
        try:
            while not await stream.wait():
                pass
            return stream.answer.vector()
        finally:
            self._leave(stream)

    async def abort(self, request_id: str) -> None:
        """End a request early. The last output of the request's generator has finish_reason "abort".
        An unknown request is ignored."""
        stream = self._streams.get(request_id)
        if stream is not None and stream.worker is not None:
            stream.worker.cancel(stream, discard=False)
