"""_lib.py - libquoth through ctypes: the structs and functions of include/quoth.h, and errors as exceptions."""
import ctypes
import os
from ctypes import (POINTER, Structure, byref, c_char_p, c_double, c_float, c_int, c_int32, c_size_t, c_uint,
                    c_uint64, c_void_p)

ERR_UNSUPPORTED, ERR_LIMIT, ERR_MEMORY, ERR_ARG, ERR_BUSY, ERR_MISSING = -3, -4, -5, -6, -7, -8
EVENT_PROMPT, EVENT_TOKEN, EVENT_DONE, EVENT_CHOICE = range(4)
ADD_SPECIAL, PARSE_SPECIAL = 1, 2


class QuothError(RuntimeError):
    """A model that cannot be opened or used. Bad parameters are a ValueError that names the field."""


class Option(Structure):
    _fields_ = [("key", c_char_p), ("value", c_char_p)]


class Request(Structure):
    _fields_ = [("size", c_size_t), ("prompt", c_char_p), ("n_prompt", c_size_t), ("prompt_ids", POINTER(c_int32)),
                ("n_prompt_id", c_size_t), ("chat", c_char_p), ("params", c_char_p)]


class EventLogprob(Structure):
    _fields_ = [("id", c_int32), ("logprob", c_float), ("rank", c_int32)]


class Event(Structure):
    _fields_ = [("id", c_uint64), ("kind", c_int32), ("choice", c_int32), ("token", c_int32), ("stop_token", c_int32),
                ("text", c_void_p), ("n_text", c_size_t), ("logprobs", POINTER(EventLogprob)),
                ("n_logprob", c_size_t), ("finish_reason", c_char_p), ("stop_text", c_char_p),
                ("n_prompt_token", c_int32), ("n_cached_token", c_int32), ("n_output_token", c_int32),
                ("queue_s", c_double), ("prefill_s", c_double), ("decode_s", c_double)]

    def new_text(self):
        return ctypes.string_at(self.text, self.n_text).decode("utf-8", "replace") if self.n_text else ""


def _load():
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libquoth.so")
    path = os.environ.get("QUOTH_LIBRARY") or (beside if os.path.exists(beside) else "libquoth.so.0")
    lib = ctypes.CDLL(path)
    error = [c_char_p, c_size_t]
    text_out = [POINTER(c_void_p), POINTER(c_size_t)]
    for name, result, arguments in (
            ("version", c_char_p, []),
            ("free", None, [c_void_p]),
            ("open", c_int, [POINTER(c_void_p), c_char_p, POINTER(Option), c_size_t] + error),
            ("close", None, [c_void_p]),
            ("info", c_void_p, [c_void_p]),
            ("stats", c_void_p, [c_void_p]),
            ("tokenize", c_int, [c_void_p, c_char_p, c_size_t, c_uint, POINTER(POINTER(c_int32)),
                                 POINTER(c_size_t)] + error),
            ("detokenize", c_int, [c_void_p, POINTER(c_int32), c_size_t, c_int] + text_out + error),
            ("apply_chat_template", c_int, [c_void_p, c_char_p] + text_out + error),
            ("queue_open", c_void_p, [c_void_p]),
            ("queue_close", None, [c_void_p]),
            ("submit", c_int, [c_void_p, POINTER(Request), POINTER(c_uint64)] + error),
            ("cancel", None, [c_void_p, c_uint64]),
            ("poll", POINTER(Event), [c_void_p, c_int]),
            ("n_open", c_size_t, [c_void_p])):
        function = getattr(lib, "quoth_" + name)
        function.restype, function.argtypes = result, arguments
    return lib


lib = _load()


def version():
    return lib.quoth_version().decode()


class Error:
    """Memory for a sentence: call(*args, *why.room), then why.check(status)."""

    def __init__(self):
        self.text = ctypes.create_string_buffer(1024)
        self.room = (self.text, len(self.text))

    def check(self, status):
        if status == 0:
            return
        sentence = self.text.value.decode("utf-8", "replace")
        if status == ERR_MEMORY:
            raise MemoryError(sentence)
        raise (ValueError if status in (ERR_ARG, ERR_LIMIT, ERR_UNSUPPORTED) else QuothError)(sentence)


def ids_array(ids):
    try:
        return (c_int32 * len(ids))(*ids)
    except (TypeError, ValueError) as e:
        raise ValueError(f"prompt_token_ids: expected a list of token ids ({e})") from None


def owned_text(pointer, n=None):
    """The text of a char * that is ours now."""
    if not pointer:
        raise MemoryError("no memory for a text")
    try:
        data = ctypes.string_at(pointer) if n is None else ctypes.string_at(pointer, n)
    finally:
        lib.quoth_free(pointer)
    return data.decode("utf-8", "replace")


def open_model(path, options):
    model, why = c_void_p(), Error()
    array = (Option * max(len(options), 1))(*[Option(k.encode(), v.encode()) for k, v in options.items()])
    why.check(lib.quoth_open(byref(model), os.fsencode(path), array, len(options), *why.room))
    return model


def tokenize(model, text, flags):
    data, ids, n, why = text.encode("utf-8", "surrogatepass"), POINTER(c_int32)(), c_size_t(), Error()
    why.check(lib.quoth_tokenize(model, data, len(data), flags, byref(ids), byref(n), *why.room))
    try:
        return ids[:n.value]
    finally:
        lib.quoth_free(ids)


def detokenize(model, ids, skip_special):
    array, text, n, why = ids_array(ids), c_void_p(), c_size_t(), Error()
    why.check(lib.quoth_detokenize(model, array, len(ids), skip_special, byref(text), byref(n), *why.room))
    return owned_text(text, n.value)


def apply_chat_template(model, chat):
    text, n, why = c_void_p(), c_size_t(), Error()
    why.check(lib.quoth_apply_chat_template(model, chat.encode(), byref(text), byref(n), *why.room))
    return owned_text(text, n.value)


class Queue:
    """Where the events of some requests arrive; of one thread."""

    def __init__(self, model):
        self.handle = lib.quoth_queue_open(model)
        if not self.handle:
            raise MemoryError("no memory for a queue")

    def close(self):
        handle, self.handle = self.handle, None
        lib.quoth_queue_close(handle)

    def submit(self, ids, params):
        """The request's id, or None: too many wait."""
        array = ids_array(ids)
        request, number, why = Request(), c_uint64(), Error()
        request.size = ctypes.sizeof(Request)
        request.prompt_ids, request.n_prompt_id, request.params = array, len(ids), params
        status = lib.quoth_submit(self.handle, byref(request), byref(number), *why.room)
        if status == ERR_BUSY:
            return None
        why.check(status)
        return number.value

    def poll(self, timeout_ms):
        """The next event, valid until the next poll; None: there was none."""
        event = lib.quoth_poll(self.handle, timeout_ms)
        return event.contents if event else None

    def n_open(self):
        return lib.quoth_n_open(self.handle)
