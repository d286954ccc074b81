"""Other ways in which a training script can affect the process that started it: leak, fork, ignore signals, fail."""

import os
import signal
import sys
import time

# torch 2.4's message on an 80 GB GPU, printed by --fake-cuda-oom.
FAKE = ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 17.66 GiB. GPU 0 has a total capacity of 79.18 GiB of which 4.97 GiB is free. "
        "Process 4242 has 30.10 GiB memory in use. Including non-PyTorch memory, this process has 44.10 GiB memory in use. Of the allocated memory "
        "42.77 GiB is allocated by PyTorch, and 612.00 MiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try "
        "setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.")


def add(parser):
    """Adds the switches to an argparse.ArgumentParser."""
    parser.add_argument("--memory", type=int, metavar="MB", help="own limit above what the program needs once (else $TRAIN_MEMORY_MB; 0: none)")
    parser.add_argument("--seconds", type=float, default=0, help="go on training for so long at least")
    parser.add_argument("--catch", action="store_true", help="catch a shortage oneself, print it and go on with half of the batch")
    parser.add_argument("--leak", type=int, default=0, metavar="MB", help="keep so many MiB of every step for ever")
    parser.add_argument("--fork-away", choices=("group", "session"), help="go on in a child and end at once with 0; session: in one of its own")
    parser.add_argument("--ignore-term", action="store_true", help="ignore SIGTERM, SIGINT and SIGHUP")
    parser.add_argument("--other-error", action="store_true", help="fail in the first step of something else (shapes that don't fit)")
    parser.add_argument("--memory-error", action="store_true", help="fail in the first step of Python's own MemoryError")
    parser.add_argument("--fake-cuda-oom", type=int, nargs="?", const=0, metavar="BATCH",
                        help="a fake: print what torch says of a full GPU and exit with 1, for batches above BATCH (all) unless on the CPU")
    parser.add_argument("--fake-on-gpu", metavar="GPU", help="--fake-cuda-oom only where CUDA_VISIBLE_DEVICES is this")
    parser.add_argument("--binary", type=int, default=0, metavar="KB", help="print so many KiB of bytes that are no text first")
    parser.add_argument("--exit", type=int, default=0, metavar="CODE", help="end with this code when all went well")


def begin(options, batch_size, device):
    """Runs before training. device is the program's device, "cpu" or a GPU."""
    if options.fork_away:
        _fork_away(options.fork_away)
    if options.ignore_term:
        for name in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(name, signal.SIG_IGN)
    if options.binary:
        sys.stdout.flush()
        os.write(sys.stdout.fileno(), bytes(range(256)) * 4 * options.binary)
    if options.fake_cuda_oom is not None and batch_size > options.fake_cuda_oom and device != "cpu" and (
            options.fake_on_gpu in (None, os.environ.get("CUDA_VISIBLE_DEVICES"))):
        print('Traceback (most recent call last):\n  File "train.py", line 88, in training_step\n    loss.backward()', file=sys.stderr)
        print(FAKE, file=sys.stderr, flush=True)
        sys.exit(1)


def _fork_away(how):
    sys.stdout.flush()
    if os.fork():
        os._exit(0)
    if how == "session":
        os.setsid()
    print("gone on as process {}".format(os.getpid()), flush=True)


class Steps:
    """Runs in every step."""

    def __init__(self, options):
        self.options, self.kept, self.end = options, [], time.monotonic() + options.seconds

    def before(self, torch):
        if self.options.other_error:
            torch.zeros(3, 4) @ torch.zeros(5, 6)
        if self.options.memory_error:
            bytearray(1 << 62)
        if self.options.leak:
            self.kept.append(torch.zeros(self.options.leak << 18))

    def over(self, done, steps):
        return done >= steps and time.monotonic() >= self.end
