"""_progress.py - a progress bar on standard error: the bar of tqdm if tqdm is installed, otherwise
a simple line."""
import contextlib
import importlib
import sys
import time
from typing import Any, Callable, Iterator, Union

Done = Callable[[int, int], None]
UseTqdm = Union[bool, Callable[..., Any]]


class _Bar:
    def __init__(self, total: int) -> None:
        self.total, self.done, self.tokens, self.start, self.shown = total, 0, 0, time.monotonic(), 0.0

    def update(self, n_token: int) -> None:
        self.done += 1
        self.tokens += n_token
        now = time.monotonic()
        if not sys.stderr.isatty() or (now - self.shown < 0.1 and self.done < self.total):
            return
        self.shown, seconds = now, max(now - self.start, 1e-9)
        left = seconds / self.done * (self.total - self.done)
        sys.stderr.write(f"\r{self.done}/{self.total} prompts, {self.tokens / seconds:.0f} tokens/s, {left:.0f} s left\x1b[K")
        sys.stderr.flush()

    def close(self) -> None:
        if self.shown:
            sys.stderr.write("\n")


@contextlib.contextmanager
def progress(total: int, wanted: UseTqdm) -> Iterator[Done]:
    """Yield done(n_prompt_token, n_output_token), which the caller calls for each request. There is
    no progress bar if wanted is False. If wanted is a function, it is called instead of tqdm."""
    if not wanted:
        yield lambda n_prompt, n_output: None
        return
    make: Any = wanted if callable(wanted) else None
    try:
        make = make or importlib.import_module("tqdm").tqdm
    except ImportError:
        bar = _Bar(total)
        try:
            yield lambda n_prompt, n_output: bar.update(n_output)
        finally:
            bar.close()
        return
    with make(total=total, desc="Processed prompts") as bar:
        yield lambda n_prompt, n_output: bar.update(1)
