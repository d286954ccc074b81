"""Recovery from out-of-memory errors within the trainer: guide 3's retry_on_oom, OOMHandler and
adaptive_batch_training, guide 0's handle_cuda_oom.

Exceptions that aren't about memory pass at once, and so does KeyboardInterrupt. Before a retry the failed attempt's
frames are cleared, because they hold its tensors. `swarm run` does the same from outside, for any command. Its new
process has no leftovers and no failed CUDA context.
"""

import functools
import inspect
import logging
import operator
import sys
import threading
import time

from .cards import cards
from .errors import USAGE, SwarmError
from .gpumemory import clear_gpu_cache, memory_summary
from .shortage import DEVICE, HOST, forget, in_group, out_of_memory

logger = logging.getLogger("swarm_bridge")

_ACCUMULATE = ("accumulate", "gradient_accumulation_steps")  # names of a training function's parameter


def retry_on_oom(max_retries=3, wait_seconds=5):
    """Decorator that calls a function again after it ran out of memory: up to max_retries times, wait_seconds after
    the failed attempt's memory was freed.

    The arguments stay the same. That helps if another process needed the memory temporarily. adaptive_batch_training
    reduces the batch. After the last retry it raises the last error, with a line about the attempts. Also usable as
    @retry_on_oom alone. Raises TypeError for a generator or an async function, because calling those doesn't compute.
    In a group of processes (torch.distributed) it doesn't retry, because the others would wait forever.
    """
    if callable(max_retries):
        return retry_on_oom()(max_retries)
    max_retries = _whole("max_retries", max_retries, 0)
    if not wait_seconds >= 0:
        raise SwarmError("wait_seconds={!r} must be a number from 0".format(wait_seconds), USAGE)

    def decorate(function):
        _check(function, "retry_on_oom")

        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            left = iter(range(max_retries))

            def again(error):
                if next(left, None) is None:
                    return None
                return "the same batch again after {:g} s".format(wait_seconds), wait_seconds

            return _attempts(lambda: function(*args, **kwargs), again)
        return wrapper
    return decorate


def adaptive_batch_training(train_fn, initial_batch_size, min_batch_size=4, accumulate=1):
    """Returns train_fn(batch_size) with the first batch size that fits: initial_batch_size, then half of it, and so
    on down to min_batch_size.

    A train_fn with a parameter `accumulate` or `gradient_accumulation_steps` also gets that, doubled as the batch
    halves, so that the effective batch stays the same. If the smallest batch fails, its error is raised, with a line
    about the attempts. Each call starts over: train_fn must build its model, optimizer and loader. TypeError and
    groups of processes as in retry_on_oom.
    """
    _check(train_fn, "adaptive_batch_training")
    keyword = _accumulates(train_fn)
    handler = OOMHandler(initial_batch_size, min_batch_size, max_retries=None, accumulate=accumulate, keep_effective=keyword is not None)

    def train():
        return train_fn(handler.batch_size, **({keyword: handler.accumulate} if keyword else {}))

    def smaller(error):
        before = handler.batch_size
        handler.reduce_batch_size()
        return ("batch {} x {}".format(handler.batch_size, handler.accumulate), 0) if handler.batch_size < before else None

    return _attempts(train, smaller, "batch {} x {}".format(handler.batch_size, handler.accumulate))


class OOMHandler:
    """The next settings of a training loop after memory ran out: batch_size, and accumulate, so that batch_size x
    accumulate stays effective_batch.

            oom = OOMHandler(initial_batch_size=128, min_batch_size=4)
            while True:
                try:
                    return train(oom.batch_size, oom.accumulate, device)
                except RuntimeError:
                    retry, _, device = oom.handle_oom(device)
                    if not retry:
                        raise

    max_retries None: as many as halving needs. keep_effective False: only batch_size changes. Threads may share a
    handler.
    """

    def __init__(self, initial_batch_size, min_batch_size=4, max_retries=3, accumulate=1, keep_effective=True):
        self.initial_batch_size = self.current_batch_size = _whole("initial_batch_size", initial_batch_size, 1)
        self.min_batch_size = min(_whole("min_batch_size", min_batch_size, 1), self.initial_batch_size)
        self.max_retries = None if max_retries is None else _whole("max_retries", max_retries, 0)
        self.accumulate = self._begun = _whole("accumulate", accumulate, 1)
        self.effective_batch, self.keep_effective = self.initial_batch_size * self.accumulate, keep_effective
        self.retry_count, self._failed, self._lock = 0, set(), threading.RLock()

    @property
    def batch_size(self):
        """The current batch size (the guide's current_batch_size)."""
        return self.current_batch_size

    def reduce_batch_size(self):
        """Halves the batch, but not below min_batch_size, doubles the accumulation, and returns the batch size.

        If half of the batch doesn't divide the effective batch, it uses the largest smaller batch that does (45 x 5:
        15 x 15). If none does, the effective batch is approximated.
        """
        with self._lock:
            half = max(self.min_batch_size, self.current_batch_size // 2)
            if self.keep_effective:
                half = next((b for b in range(half, self.min_batch_size - 1, -1) if self.effective_batch % b == 0), half)
                self.accumulate = max(1, round(self.effective_batch / half))
            self.current_batch_size = half
            return half

    def should_retry(self):
        """Whether another retry is allowed."""
        return self.max_retries is None or self.retry_count < self.max_retries

    def handle_oom(self, device="cpu", error=None):
        """Returns (True, batch size, device) to try next, or (False, None, None).

        It tries smaller batches first, then the GPU with the most free memory among those that haven't failed, then
        the CPU, both with the initial batch. error is the exception; default: the one being handled. Its frames'
        memory is freed. If the error isn't about memory, it returns (False, None, None). If host memory ran out, it
        tries no other device.
        """
        device, error = "cuda:0" if str(device) == "cuda" else str(device), error or sys.exc_info()[1]
        kind = DEVICE if error is None else out_of_memory(error)
        if kind is None or in_group():
            return False, None, None
        with self._lock:
            if not self.should_retry():
                return False, None, None
            smaller = self.current_batch_size > self.min_batch_size
            other = device if smaller else self._elsewhere(device, kind)
            if other is None:
                return False, None, None
            self.retry_count += 1
            if smaller:
                self.reduce_batch_size()
            else:
                self.current_batch_size, self.accumulate = self.initial_batch_size, self._begun
            logger.warning("out of memory on %s: retry %d with batch %d x %d on %s", device, self.retry_count, self.current_batch_size,
                           self.accumulate, other)
            batch_size = self.current_batch_size
        if error is not None:
            forget(error, contexts=False)
        _give_back()
        return True, batch_size, other

    def _elsewhere(self, device, kind):
        if kind == HOST or device == "cpu":
            return None
        self._failed.add(device)
        others = [c for c in cards()[0] if "cuda:{}".format(c.index) not in self._failed]
        return "cuda:{}".format(max(others, key=lambda c: (c.free, -c.index)).index) if others else "cpu"


def handle_cuda_oom(function):
    """Guide 0's decorator: when memory runs out it frees caches, logs the GPU's memory, and raises a RuntimeError. It
    doesn't retry.

    The RuntimeError's text begins with the original text, so that out_of_memory still recognizes it, and ends with a
    remedy.
    """
    _check(function, "handle_cuda_oom")

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except Exception as error:
            kind, said = out_of_memory(error), str(error).rstrip(".")
            if kind is None:
                raise
            logger.error("out of memory; %s", memory_summary())
            _give_back()
            if out_of_memory(RuntimeError(said)) != kind:  # MemoryError's text alone isn't recognized
                said = "{} memory: {}{}".format("not enough" if kind == HOST else "out of", type(error).__name__, ": " + said if said else "")
            raise RuntimeError(said + ". Try: a smaller batch with more accumulation, gradient checkpointing, or swarm doctor --oom LOG") from error
    return wrapper


def _attempts(call, again, begun="as called"):
    """Returns call(). If memory ran out, again(error) changes the next attempt and returns a description and the
    seconds to wait, or None: then the error is raised, with a line about the attempts.
    """
    outside, tried = sys.exc_info()[1], [begun]
    while True:
        try:
            return call()
        except Exception as error:
            kind = out_of_memory(error)
            if kind is None:
                raise
            step = None if in_group() else again(error)
            if step is None:
                _note(error, tried)
                raise
            change, wait = step
            logger.warning("out of memory (%s: %s); next: %s", type(error).__name__, _first_line(error), change)
            tried.append(change)
            forget(error, outside)
        # Here the exception no longer exists, so that memory referenced only by its frames can be freed.
        _give_back()
        if wait > 0:
            time.sleep(wait)


def _give_back():
    try:
        clear_gpu_cache()
    except RuntimeError as error:  # a failed CUDA context: the next attempt reports it
        logger.warning("torch's cache can't be emptied: %s", _first_line(error))


def _note(error, tried):
    """Appends a note about the attempts to an error, if its text is editable. Its first line stays."""
    line = "tried before: {}".format(", ".join(tried)) if len(tried) > 1 else "not retried"
    if in_group():
        line = "not retried: the processes of torch.distributed must restart together (swarm run does that)"
    line = "swarm_bridge: " + line
    if not error.args:
        error.args = (line,)
    elif isinstance(error.args[0], str) and len(error.args) == 1:
        error.args = (error.args[0] + "\n" + line,)
    elif hasattr(error, "add_note"):
        error.add_note(line)


def _first_line(error):
    return (str(error).splitlines() or [""])[0][:300]


def _check(function, what):
    """Raises TypeError for functions that can't be called again."""
    if not callable(function):
        raise TypeError("{} takes a function, not {!r}".format(what, function))
    while isinstance(function, functools.partial):
        function = function.func
    for one in (function, getattr(type(function), "__call__", None)):
        if inspect.iscoroutinefunction(one) or inspect.isasyncgenfunction(one) or inspect.isgeneratorfunction(one):
            raise TypeError("{} cannot call {} again, because calling a generator or an async function only starts it".format(
                what, getattr(function, "__qualname__", type(function).__name__)))


def _accumulates(function):
    """Returns the name of a function's parameter for accumulation, None if it has none."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return None
    for name in _ACCUMULATE:
        if name in parameters and parameters[name].kind in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY):
            return name
    return None


def _whole(name, value, least):
    """Returns the value as an int. NumPy integers are accepted."""
    try:
        if not isinstance(value, bool) and operator.index(value) >= least:
            return operator.index(value)
    except TypeError:
        pass
    raise SwarmError("{}={!r} must be a whole number from {}".format(name, value, least), USAGE)
