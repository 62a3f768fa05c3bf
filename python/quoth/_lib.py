"""_lib.py - calls of libquoth by ctypes: the structs and functions of include/quoth.h. Errors become
exceptions."""
import ctypes
import json
import os
import re
from ctypes import (POINTER, Structure, byref, c_char_p, c_double, c_float, c_int, c_int32, c_size_t, c_uint,
                    c_uint64, c_void_p)
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

ERR_UNSUPPORTED, ERR_LIMIT, ERR_MEMORY, ERR_ARG, ERR_BUSY, ERR_MISSING = -3, -4, -5, -6, -7, -8
EVENT_PROMPT, EVENT_TOKEN, EVENT_DONE, EVENT_CHOICE = range(4)
ADD_SPECIAL, PARSE_SPECIAL = 1, 2


class QuothError(RuntimeError):
    """Error for a model that cannot be opened or used. An invalid parameter causes a ValueError with
    the name of the field instead."""


class ParameterError(ValueError):
    """Error for a parameter that the library rejects. `field` is the parameter's name; ""
    if none."""

    def __init__(self, sentence: str, field: str) -> None:
        super().__init__(sentence)
        self.field = field


class Option(Structure):
    """struct quoth_option"""
    _fields_ = [("key", c_char_p), ("value", c_char_p)]


class Request(Structure):
    """struct quoth_request"""
    _fields_ = [("size", c_size_t), ("prompt", c_char_p), ("n_prompt", c_size_t), ("prompt_ids", POINTER(c_int32)),
                ("n_prompt_id", c_size_t), ("chat", c_char_p), ("params", c_char_p), ("pooling", c_char_p)]


class EventLogprob(Structure):
    """struct quoth_logprob"""
    _fields_ = [("id", c_int32), ("logprob", c_float), ("rank", c_int32)]


class Event(Structure):
    """struct quoth_event; valid until the next poll of its queue"""
    id: int
    kind: int
    choice: int
    token: int
    stop_token: int
    n_text: int
    logprobs: Any
    n_logprob: int
    finish_reason: bytes
    stop_text: Optional[bytes]
    n_prompt_token: int
    n_cached_token: int
    n_output_token: int
    end_token: int
    queue_s: float
    prefill_s: float
    decode_s: float
    embedding: Any
    n_embedding: int
    _fields_ = [("id", c_uint64), ("kind", c_int32), ("choice", c_int32), ("token", c_int32), ("stop_token", c_int32),
                ("text", c_void_p), ("n_text", c_size_t), ("logprobs", POINTER(EventLogprob)),
                ("n_logprob", c_size_t), ("finish_reason", c_char_p), ("stop_text", c_char_p),
                ("n_prompt_token", c_int32), ("n_cached_token", c_int32), ("n_output_token", c_int32),
                ("end_token", c_int32), ("queue_s", c_double), ("prefill_s", c_double), ("decode_s", c_double),
                ("embedding", POINTER(c_float)), ("n_embedding", c_size_t)]

    def new_text(self) -> str:
        """Return the event's text."""
        return ctypes.string_at(self.text, self.n_text).decode("utf-8", "replace") if self.n_text else ""


def _load() -> ctypes.CDLL:
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libquoth.so")
    path = os.environ.get("QUOTH_LIBRARY") or (beside if os.path.exists(beside) else "libquoth.so.0")
    try:
        loaded = ctypes.CDLL(path)
    except OSError as e:
        raise ImportError(f"{e}; build libquoth with make and set QUOTH_LIBRARY to its path, or install the package "
                          "with pip, which builds it") from e
    error: List[Any] = [c_char_p, c_size_t]
    text_out: List[Any] = [POINTER(c_void_p), POINTER(c_size_t)]
    functions: Tuple[Tuple[str, Any, List[Any]], ...] = (
        ("version", c_char_p, []),
        ("free", None, [c_void_p]),
        ("error_field", c_char_p, []),
        ("params", c_void_p, []),
        ("open", c_int, [POINTER(c_void_p), c_char_p, POINTER(Option), c_size_t] + error),
        ("close", None, [c_void_p]),
        ("info", c_void_p, [c_void_p]),
        ("stats", c_void_p, [c_void_p]),
        ("metrics", c_void_p, [c_void_p]),
        ("reset_prefix_cache", None, [c_void_p]),
        ("tokenize", c_int, [c_void_p, c_char_p, c_size_t, c_uint, POINTER(POINTER(c_int32)),
                             POINTER(c_size_t)] + error),
        ("detokenize", c_int, [c_void_p, POINTER(c_int32), c_size_t, c_int] + text_out + error),
        ("apply_chat_template", c_int, [c_void_p, c_char_p] + text_out + error),
        ("pool", c_int, [c_void_p, c_char_p, c_char_p] + text_out + error),
        ("queue_open", c_void_p, [c_void_p]),
        ("queue_close", None, [c_void_p]),
        ("submit", c_int, [c_void_p, POINTER(Request), POINTER(c_uint64)] + error),
        ("cancel", None, [c_void_p, c_uint64]),
        ("poll", POINTER(Event), [c_void_p, c_int]),
        ("wake", None, [c_void_p]),
        ("n_open", c_size_t, [c_void_p]))
    for name, result, arguments in functions:
        function = getattr(loaded, "quoth_" + name)
        function.restype, function.argtypes = result, arguments
    return loaded


lib = _load()


def version() -> str:
    """Return the library's version."""
    return str(lib.quoth_version().decode())


def sampling_params() -> List[Dict[str, Any]]:
    """Return the sampling parameters with their types, ranges and defaults, as listed by
    quoth_params."""
    text = lib.quoth_params()
    if not text:
        raise MemoryError("the list of sampling parameters")
    try:
        listed: List[Dict[str, Any]] = json.loads(ctypes.string_at(text))
        return listed
    finally:
        lib.quoth_free(text)


def in_python(sentence: str) -> str:
    """Return a sentence of the library with Python's names in place of flags of the command line
    (max_model_len for --max-model-len). Flags of the command `hf download` are not changed."""
    return re.sub(r"(hf download \S+ )?--([a-z][a-z0-9]*(?:-[a-z0-9]+)*)",
                  lambda m: m.group(0) if m.group(1) else m.group(2).replace("-", "_"), sentence)


class Error:
    """Memory for an error message. Use: call(*args, *why.room), then why.check(status)."""

    def __init__(self) -> None:
        self.text = ctypes.create_string_buffer(1024)
        self.room = (self.text, len(self.text))

    def check(self, status: int, names: Optional[Mapping[str, str]] = None) -> None:
        """Raise the exception for a status. names: the caller's names of the library's fields."""
        if status == 0:
            return
        sentence, field = self.text.value.decode("utf-8", "replace"), str(lib.quoth_error_field().decode())
        name = (names or {}).get(field, field)
        if field and sentence.startswith(field):
            sentence = name + sentence[len(field):]
        sentence = in_python(sentence)
        if status == ERR_MEMORY:
            raise MemoryError(sentence)
        if field or status in (ERR_ARG, ERR_LIMIT, ERR_UNSUPPORTED):
            raise ParameterError(sentence, name)
        raise QuothError(sentence)


def ids_array(ids: Sequence[int]) -> Any:
    """Return token ids as a C array."""
    try:
        return (c_int32 * len(ids))(*ids)
    except (TypeError, ValueError) as e:
        raise ValueError(f"prompt_token_ids: expected a list of token ids ({e})") from None


def owned_text(pointer: Any, n: Optional[int] = None) -> str:
    """Return the text of an owned char *, and free that memory."""
    if not pointer:
        raise MemoryError("no memory for a text")
    try:
        data = ctypes.string_at(pointer) if n is None else ctypes.string_at(pointer, n)
    finally:
        lib.quoth_free(pointer)
    return data.decode("utf-8", "replace")


def open_model(path: str, options: Mapping[str, str], names: Mapping[str, str]) -> c_void_p:
    """Open a quoth_model *. Raise ValueError for an invalid option, with its name in `names`. Raise
    QuothError if the model cannot be opened."""
    model, why = c_void_p(), Error()
    array = (Option * max(len(options), 1))(*[Option(k.encode(), v.encode()) for k, v in options.items()])
    why.check(lib.quoth_open(byref(model), os.fsencode(path), array, len(options), *why.room), names)
    return model


def tokenize(model: c_void_p, text: str, flags: int) -> List[int]:
    """Return the token ids of a text."""
    data, ids, n, why = text.encode("utf-8", "surrogatepass"), POINTER(c_int32)(), c_size_t(), Error()
    why.check(lib.quoth_tokenize(model, data, len(data), flags, byref(ids), byref(n), *why.room))
    try:
        return list(ids[:n.value])
    finally:
        lib.quoth_free(ids)


def detokenize(model: c_void_p, ids: Sequence[int], skip_special: bool) -> str:
    """Return the text of token ids."""
    array, text, n, why = ids_array(ids), c_void_p(), c_size_t(), Error()
    why.check(lib.quoth_detokenize(model, array, len(ids), skip_special, byref(text), byref(n), *why.room))
    return owned_text(text, n.value)


def apply_chat_template(model: c_void_p, chat: str) -> str:
    """Return the prompt of a conversation in JSON."""
    text, n, why = c_void_p(), c_size_t(), Error()
    why.check(lib.quoth_apply_chat_template(model, chat.encode(), byref(text), byref(n), *why.room))
    return owned_text(text, n.value)


def pool(model: c_void_p, url: str, body: Mapping[str, Any]) -> Optional[Dict[str, Any]]:
    """Return the answer to a body of the HTTP API, or None if too many requests wait."""
    text, n, why = c_void_p(), c_size_t(), Error()
    status = lib.quoth_pool(model, url.encode(), json.dumps(body).encode(), byref(text), byref(n), *why.room)
    if status == ERR_BUSY:
        return None
    why.check(status)
    answer: Dict[str, Any] = json.loads(owned_text(text, n.value))
    return answer


class Queue:
    """A queue of the events of requests. Only one thread may use a queue; any thread may call wake."""

    def __init__(self, model: c_void_p) -> None:
        self.handle: Optional[int] = lib.quoth_queue_open(model)
        if not self.handle:
            raise MemoryError("no memory for a queue")

    def close(self) -> None:
        """Cancel the requests in flight."""
        handle, self.handle = self.handle, None
        lib.quoth_queue_close(handle)

    def submit(self, ids: Sequence[int], params: bytes, pooling: Optional[bytes] = None,
               text: Optional[bytes] = None) -> Optional[int]:
        """Submit a request. Return the request's id, or None if too many requests wait. text: the
        prompt of a pooled request in place of ids; the library adds the model's default prompt."""
        array = ids_array(ids)
        request, number, why = Request(), c_uint64(), Error()
        request.size = ctypes.sizeof(Request)
        request.params = params
        if text is None:
            request.prompt_ids, request.n_prompt_id = array, len(ids)
        else:
            request.prompt, request.n_prompt = text, len(text)
        request.pooling = pooling
        status = lib.quoth_submit(self.handle, byref(request), byref(number), *why.room)
        if status == ERR_BUSY:
            return None
        why.check(status)
        return number.value

    def poll(self, timeout_ms: int) -> Optional[Event]:
        """Return the next event, valid until the next poll, or None if no event arrived."""
        event = lib.quoth_poll(self.handle, timeout_ms)
        return event.contents if event else None

    def wake(self) -> None:
        """Make a waiting poll return None. Any thread may call wake while the queue is open."""
        lib.quoth_wake(self.handle)

    def n_open(self) -> int:
        """Return the number of incomplete requests."""
        return int(lib.quoth_n_open(self.handle))
