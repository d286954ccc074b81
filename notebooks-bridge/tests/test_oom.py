"""Recovery after memory ran out, without torch: which errors count, what is retried, what is freed, and what is
refused.
"""

import errno
import gc
import logging
import threading
import traceback
import weakref

import pytest

import swarm_bridge
from swarm_bridge import OOMHandler, SwarmError, adaptive_batch_training, handle_cuda_oom, out_of_memory, retry_on_oom, shortage


def named(name, *bases):
    """Returns an exception of a library that is not installed. It is recognized by its type's name."""
    return type(name, bases or (Exception,), {})


TORCH_2 = ("CUDA out of memory. Tried to allocate 17.66 GiB. GPU 0 has a total capacity of 79.18 GiB of which 4.97 GiB is free. "
           "Process 7 has 74.20 GiB memory in use. Of the allocated memory 70.77 GiB is allocated by PyTorch, and 1.20 GiB is reserved by PyTorch but unallocated.")
TORCH_CPU = "[enforce fail at alloc_cpu.cpp:75] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 4294967296 bytes."
WRAPPED = "Caught RuntimeError in DataLoader worker process 0.\nOriginal Traceback (most recent call last):\n" + "  File x\n" * 400 + "RuntimeError: "


@pytest.mark.parametrize("error, kind", [
    (named("OutOfMemoryError", RuntimeError)(TORCH_2), "device"),
    (RuntimeError("CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 10.76 GiB total capacity; 9.5 GiB already allocated)"), "device"),
    (RuntimeError("CUDA error: out of memory"), "device"),
    (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), "device"),
    (RuntimeError("MPS backend out of memory (MPS allocated: 17.9 GB, other allocations: 200 MB, max allowed: 18.1 GB)"), "device"),
    (RuntimeError("HIP out of memory. Tried to allocate 2.00 GiB"), "device"),
    (RuntimeError("NCCL error: unhandled cuda error. Cuda failure 2 'out of memory'"), "device"),
    (RuntimeError(WRAPPED + TORCH_2), "device"),
    (RuntimeError(WRAPPED + TORCH_CPU), "host"),
    (named("XlaRuntimeError", RuntimeError)("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8589934592 bytes."), "device"),
    (named("JaxRuntimeError", RuntimeError)("RESOURCE_EXHAUSTED: Failed to allocate request for 2.00GiB on device ordinal 0"), "device"),
    (named("ResourceExhaustedError")("OOM when allocating tensor with shape[256,1024,1024] and type float on /GPU:0"), "device"),
    (RuntimeError(TORCH_CPU), "host"),
    (RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 4294967296 bytes."), "host"),
    (RuntimeError("std::bad_alloc"), "host"),
    (MemoryError(), "host"),
    (named("_ArrayMemoryError", MemoryError)("Unable to allocate 7.45 GiB for an array with shape (1000000000,)"), "host"),
    (OSError(errno.ENOMEM, "Cannot allocate memory"), "host"),
    (RuntimeError("CUDA error: device-side assert triggered"), None),
    (RuntimeError("CUDA error: an illegal memory access was encountered"), None),
    (RuntimeError("CUDA error: no kernel image is available for execution on the device"), None),
    (RuntimeError("mat1 and mat2 shapes cannot be multiplied (3x4 and 5x6)"), None),
    (named("XlaRuntimeError", RuntimeError)("INTERNAL: the driver is gone"), None),
    (named("ResourceExhaustedError")("/data/train.tfrecord; No space left on device"), None),
    (ValueError("the story is about a man who ran out of memory"), None),
    (OSError(errno.ENOSPC, "No space left on device"), None),
    (KeyError("memory"), None),
])
def test_a_shortage_is_told_by_type_and_text(error, kind):
    assert out_of_memory(error) == kind


def failing(times, error=MemoryError):
    """Returns a function that fails that many times, and counts its calls."""
    def function(*args, **kwargs):
        function.calls.append((args, kwargs))
        if len(function.calls) <= times:
            raise error("no room") if error is not MemoryError else MemoryError()
        return "trained"
    function.calls = []
    return function


@pytest.mark.parametrize("times, retries", [(0, 0), (1, 1), (3, 3), (2, 5)])
def test_a_call_is_repeated_with_its_arguments_until_it_succeeds(times, retries):
    function = failing(times)
    assert retry_on_oom(max_retries=retries, wait_seconds=0)(function)("a", b=2) == "trained"
    assert function.calls == [(("a",), {"b": 2})] * (times + 1)


def test_the_decorator_alone_retries_three_times(monkeypatch):
    waits = []
    monkeypatch.setattr(swarm_bridge.oom.time, "sleep", waits.append)
    function = failing(3)
    assert retry_on_oom(function)() == "trained"
    assert waits == [5, 5, 5]


def test_the_last_error_is_raised_and_says_what_was_tried(caplog):
    text = RuntimeError(TORCH_CPU)
    with caplog.at_level(logging.WARNING), pytest.raises(RuntimeError) as raised:
        retry_on_oom(max_retries=2, wait_seconds=0)(failing(9, lambda _: RuntimeError(*text.args)))()
    said = str(raised.value).splitlines()
    assert said[0] == TORCH_CPU, "the first line stays as it was"
    assert said[1] == "swarm_bridge: tried before: as called, the same batch again after 0 s, the same batch again after 0 s"
    assert out_of_memory(raised.value) == "host"
    assert [entry.name for entry in traceback.extract_tb(raised.value.__traceback__)][-1] == "function", "its traceback is whole"
    assert len([r for r in caplog.records if "next: the same batch again" in r.getMessage()]) == 2


def test_an_error_whose_first_argument_is_no_text_stays_as_it_is():
    error = named("ResourceExhaustedError")(None, "op", "OOM when allocating tensor")
    with pytest.raises(type(error)) as raised:
        retry_on_oom(max_retries=0)(lambda: (_ for _ in ()).throw(error))()
    assert raised.value.args == (None, "op", "OOM when allocating tensor")


@pytest.mark.parametrize("error", [ValueError("shapes"), RuntimeError("CUDA error: device-side assert triggered"), KeyboardInterrupt(),
                                   SystemExit(4)])
def test_everything_else_passes_at_once(error):
    calls = []

    def function(*_):
        calls.append(1)
        raise error

    for attempt in (retry_on_oom(wait_seconds=0)(function), lambda: adaptive_batch_training(function, 128), handle_cuda_oom(function)):
        del calls[:]
        with pytest.raises(type(error)) as raised:
            attempt()
        assert raised.value is error and len(calls) == 1


def test_the_batch_is_halved_down_to_the_smallest():
    sizes = []

    def train(batch_size):
        sizes.append(batch_size)
        if batch_size > 20:
            raise MemoryError()
        return batch_size

    assert adaptive_batch_training(train, initial_batch_size=128) == 16
    assert sizes == [128, 64, 32, 16]
    del sizes[:]
    with pytest.raises(MemoryError) as raised:
        adaptive_batch_training(lambda n: train(n + 1000), 45, 4)
    assert sizes == [1045, 1022, 1011, 1005, 1004], "half, and at last the smallest itself"
    assert "tried before: batch 45 x 1, batch 22 x 1, batch 11 x 1, batch 5 x 1, batch 4 x 1" in str(raised.value)
    assert adaptive_batch_training(lambda n: n, 2) == 2, "less than the smallest is tried too"


@pytest.mark.parametrize("parameter", ["accumulate", "gradient_accumulation_steps"])
def test_a_function_that_accumulates_keeps_its_effective_batch(parameter):
    made = {}
    exec("def train(batch_size, {0}=1):\n  seen.append((batch_size, {0}))\n  if batch_size > 9: raise MemoryError()\n  return seen".format(parameter),
         dict(seen=[]), made)
    assert adaptive_batch_training(made["train"], 64, accumulate=2) == [(64, 2), (32, 4), (16, 8), (8, 16)]


@pytest.mark.parametrize("batch, accumulate, least, steps", [
    (128, 1, 4, [(64, 2), (32, 4), (16, 8), (8, 16), (4, 32), (4, 32)]),
    (45, 5, 4, [(15, 15), (5, 45), (5, 45)]),          # 225 = 45 x 5 = 15 x 15 = 5 x 45
    (127, 1, 4, [(63, 2), (31, 4), (15, 8), (7, 18), (4, 32)]),  # a prime: no smaller batch divides it
    (5, 1, 1, [(1, 5), (1, 5)]),
    (1, 7, 1, [(1, 7)]),
])
def test_the_handler_offers_batch_and_accumulation(batch, accumulate, least, steps):
    handler = OOMHandler(initial_batch_size=batch, min_batch_size=least, accumulate=accumulate)
    assert (handler.batch_size, handler.accumulate, handler.effective_batch) == (batch, accumulate, batch * accumulate)
    got = []
    for _ in steps:
        handler.reduce_batch_size()
        got.append((handler.batch_size, handler.accumulate))
    if (batch, accumulate) == (45, 5):
        assert got == [(15, 15), (5, 45), (4, 56)], "no divisor is left between 4 and 5: nearly 225"
    else:
        assert got == steps
    assert all(abs(b * a - batch * accumulate) <= b // 2 for b, a in got)


def test_the_handler_retries_as_often_as_allowed_and_no_longer_than_it_helps():
    handler = OOMHandler(initial_batch_size=128, min_batch_size=4)  # max_retries=3, as in the guide
    assert [handler.handle_oom("cpu") for _ in range(4)] == [(True, 64, "cpu"), (True, 32, "cpu"), (True, 16, "cpu"), (False, None, None)]
    handler = OOMHandler(8, 4, max_retries=9)
    assert [handler.handle_oom("cpu")[0] for _ in range(3)] == [True, False, False], "4 is the smallest, and there is nothing below the CPU"


def test_the_handler_knows_what_is_being_handled_and_frees_it():
    handler, held = OOMHandler(8, 4), []

    class Tensor:
        pass

    def train():
        tensor = Tensor()
        held.append(weakref.ref(tensor))
        raise MemoryError()

    try:
        train()
    except MemoryError:
        assert handler.handle_oom() == (True, 4, "cpu")
        assert held[0]() is None, "while the exception is still being handled"
    try:
        raise ValueError("shapes")
    except ValueError:
        assert OOMHandler(8).handle_oom() == (False, None, None)


def test_threads_share_one_handler():
    handler, allowed = OOMHandler(1 << 20, 1, max_retries=5), []
    threads = [threading.Thread(target=lambda: allowed.extend(handler.handle_oom()[0] for _ in range(3))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert allowed.count(True) == 5 and len(allowed) == 12
    assert handler.batch_size == (1 << 20) >> 5 and handler.batch_size * handler.accumulate == 1 << 20


def test_threads_retry_by_themselves():
    results = []

    def one(n):
        results.append((n, adaptive_batch_training(lambda b: b if b <= n else bytearray(1 << 62), 8, 1)))

    threads = [threading.Thread(target=one, args=(1 << i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [(1 << i, 1 << i) for i in range(4)]


class Big:
    """A stand-in for a tensor. alive counts instances."""
    alive = 0

    def __init__(self):
        Big.alive += 1
        self.me = self  # a cycle: only the collector frees it

    def __del__(self):
        Big.alive -= 1


def test_what_an_attempt_held_is_gone_before_the_next_begins():
    seen, kept = [], []

    def inner(big):
        other = Big()
        try:
            raise KeyError(other)
        except KeyError:
            raise MemoryError()

    @retry_on_oom(max_retries=3, wait_seconds=0)
    def train():
        gc.collect()
        seen.append(Big.alive)
        big = Big()
        if len(seen) < 4:
            try:
                inner(big)
            except MemoryError as error:
                kept.append(error.__traceback__)  # as a logger would
                raise
        return big

    gc.disable()
    try:
        train()
    finally:
        gc.enable()
    assert seen == [0, 0, 0, 0], "each attempt begins with none of the former's"
    gc.collect()
    assert Big.alive == 0


def test_what_was_being_handled_before_keeps_its_traceback():
    function = failing(2)
    try:
        raise OSError("the checkpoint is gone")
    except OSError as error:
        assert retry_on_oom(max_retries=2, wait_seconds=0)(function)() == "trained"
        assert error.__traceback__ is not None
        assert traceback.extract_tb(error.__traceback__)[-1].line == 'raise OSError("the checkpoint is gone")'


def test_decorated_functions_may_call_each_other():
    sizes = []

    @retry_on_oom(max_retries=1, wait_seconds=0)
    def step(batch_size):
        sizes.append(batch_size)
        if batch_size > 16:
            raise MemoryError()
        return batch_size

    assert adaptive_batch_training(step, 64) == 16
    assert sizes == [64, 64, 32, 32, 16]

    @retry_on_oom(max_retries=1, wait_seconds=0)
    def whole():
        return handle_cuda_oom(step)(64)

    del sizes[:]
    with pytest.raises(RuntimeError) as raised:
        whole()
    assert sizes == [64] * 4 and "Try: a smaller batch" in str(raised.value)


def test_guide_0s_decorator_says_what_to_do_and_keeps_the_cause(caplog):
    error = named("OutOfMemoryError", RuntimeError)(TORCH_2)

    @handle_cuda_oom
    def step(x):
        """doc"""
        if x:
            raise error
        return x

    assert step(0) == 0 and step.__doc__ == "doc"
    with caplog.at_level(logging.ERROR), pytest.raises(RuntimeError) as raised:
        step(1)
    assert raised.value.__cause__ is error and str(raised.value).startswith(TORCH_2.rstrip(".") + ". Try: a smaller batch")
    assert out_of_memory(raised.value) == "device", "an outer decorator still knows it"
    assert "Memory Summary" in caplog.text


async def coroutine():
    pass


async def agenerator():
    yield


def generator():
    yield


class Stepper:
    def __call__(self):
        yield


@pytest.mark.parametrize("function", [coroutine, agenerator, generator, Stepper()])
@pytest.mark.parametrize("take", [retry_on_oom, retry_on_oom(max_retries=1), handle_cuda_oom, lambda f: adaptive_batch_training(f, 8)])
def test_what_cannot_be_called_again_is_refused(take, function):
    with pytest.raises(TypeError, match="calling a generator or an async function"):
        take(function)


@pytest.mark.parametrize("call, said", [
    (lambda: retry_on_oom(max_retries=-1), "max_retries=-1 must be a whole number from 0"),
    (lambda: retry_on_oom(max_retries="3"), "max_retries='3' must be a whole number from 0"),
    (lambda: retry_on_oom(wait_seconds=-5), "wait_seconds=-5 must be a number from 0"),
    (lambda: OOMHandler(0), "initial_batch_size=0 must be a whole number from 1"),
    (lambda: OOMHandler(12.5), "initial_batch_size=12.5 must be a whole number from 1"),
    (lambda: OOMHandler(True), "initial_batch_size=True must be a whole number from 1"),
    (lambda: adaptive_batch_training(print, 8, min_batch_size=0), "min_batch_size=0 must be a whole number from 1"),
])
def test_bad_numbers_are_named(call, said):
    with pytest.raises(SwarmError) as raised:
        call()
    assert str(raised.value) == said and raised.value.code == 2


def test_no_function_is_refused():
    with pytest.raises(TypeError, match="takes a function"):
        adaptive_batch_training(None, 8)


def test_one_of_several_processes_does_not_retry_alone(monkeypatch):
    """A fake torch.distributed: two processes that wait for each other."""
    import types
    group = types.SimpleNamespace(is_available=lambda: True, is_initialized=lambda: True, get_world_size=lambda: 2)
    monkeypatch.setitem(shortage.sys.modules, "torch", types.SimpleNamespace(distributed=group, cuda=None))
    function = failing(1)
    with pytest.raises(MemoryError, match="must restart together"):
        retry_on_oom(wait_seconds=0)(function)()
    assert len(function.calls) == 1
    assert OOMHandler(128).handle_oom("cuda:0") == (False, None, None)
