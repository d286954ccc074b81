"""The ranks of one engine: processes with the same weights that share the work of a call and add up their
gradients.

Every rank runs the same calls. A vote (`agree`, and the end of `run`) follows every step that can fail on one
rank alone, above all for lack of memory. The order of votes is the same on all ranks. A rank that fails takes
part only in the next vote, after which all leave the call, so that none waits for a rank that is elsewhere.
Votes run on gloo between the host's processes, which notices a dead one at once. Gradients run on nccl on
CUDA. A dead or silent rank ends the whole group (RankLost).
"""

import os
import time
from datetime import timedelta

import torch

TIMEOUT = 600.0  # seconds that ranks wait for each other within a call
JOIN_TIMEOUT = 60.0  # seconds for all ranks to rendezvous, once all are up
_POLL = 0.0005  # seconds between two checks of a reduction on a device


class Elsewhere(Exception):
    """Another rank failed. Its own answer has the reason."""


class RankLost(Exception):
    """A rank has died, is silent or holds other weights: the group cannot continue."""


class Group:
    """One rank's view of its group. A group of size 1 needs no other rank. `store` is a file that all
    ranks can open.
    """

    def __init__(self, rank=0, size=1, store=""):
        self.rank, self.size, self.timeout = rank, size, TIMEOUT
        self._store = store
        self._device_group = None

    def join(self):
        """Waits for the other ranks. Each rank must call it once."""
        if self.size == 1:
            return
        distributed = torch.distributed
        # All ranks are processes of this host, but gloo and nccl would search for its address on a network.
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        os.environ.setdefault("NCCL_SOCKET_IFNAME", "lo")
        # nccl's own watchdog would end the process before it can answer. torch 2.2 renamed the setting.
        renamed = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 2)
        os.environ["TORCH_NCCL_ASYNC_ERROR_HANDLING" if renamed else "NCCL_ASYNC_ERROR_HANDLING"] = "0"
        try:
            store = distributed.FileStore(self._store, self.size)
            # Check that all ranks are up first, because gloo would wait for a dead rank as long as for a
            # sum.
            store.set(f"here {self.rank}", "1")
            store.wait([f"here {rank}" for rank in range(self.size)], timedelta(seconds=JOIN_TIMEOUT))
            limit = timedelta(seconds=self.timeout)
            distributed.init_process_group("gloo", store=store, rank=self.rank, world_size=self.size, timeout=limit)
        except RuntimeError as error:
            raise RankLost(f"the ranks did not meet: {_first_line(error)}") from None

    def open(self, device):
        """Prepares sums on device, this rank's own, after all ranks have agreed that their device exists."""
        if self.size == 1 or device.type != "cuda":
            return
        torch.cuda.set_device(device)
        limit = timedelta(seconds=self.timeout)
        try:
            self._device_group = torch.distributed.new_group(backend="nccl", timeout=limit)
            self.sum_(torch.zeros(1, device=device))  # nccl allocates its memory and connections at the first sum
        except RuntimeError as error:
            raise RankLost(f"the ranks did not meet on their devices: {_first_line(error)}") from None

    def leave(self):
        if self.size > 1 and torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()
        self._device_group = None

    def span(self, count):
        """This rank's part of 0..count-1, as (begin, end). The ranks' parts are adjacent."""
        return count * self.rank // self.size, count * (self.rank + 1) // self.size

    def share(self, costs):
        """This rank's indices of costs. The most expensive go first, each to the rank with the least cost
        so far.
        """
        loads, mine = [(0, rank) for rank in range(self.size)], []
        for index in sorted(range(len(costs)), key=lambda i: (-costs[i], i)):
            load, rank = loads.pop(loads.index(min(loads)))
            loads.append((load + costs[index], rank))
            if rank == self.rank:
                mine.append(index)
        return sorted(mine)

    def run(self, work, mark=None):
        """Runs work(), and at its end checks whether all ranks succeeded. Returns its result.

        Raises the error of work, or Elsewhere if another rank failed. mark(), if given, returns an integer
        that must be the same on all ranks.
        """
        try:
            result = work()
            number = mark() if mark and self.size > 1 else 0
        except (Elsewhere, RankLost):
            raise
        except BaseException:
            self._vote(True)
            raise
        self.agree(number)
        return result

    def agree(self, number=0):
        """Returns when all ranks have called it with the same number. Raises Elsewhere if one has failed
        before.
        """
        votes = self._vote(False, number)
        if any(failed for failed, _ in votes):
            raise Elsewhere("another rank failed")
        if len({number for _, number in votes}) > 1:
            raise RankLost("the ranks hold different weights")

    def sum_(self, tensor):
        """Adds up the ranks' tensors in place. All ranks get the same bits."""
        return tensor if self.size == 1 else self._reduce(tensor, torch.distributed.ReduceOp.SUM)

    def largest(self, number):
        """The largest of the ranks' numbers."""
        if self.size == 1:
            return number
        return float(self._reduce(torch.tensor(number, dtype=torch.float64), torch.distributed.ReduceOp.MAX))

    def _reduce(self, tensor, operation):
        try:
            if tensor.is_cuda:
                # Not a blocking wait: nccl would wait for a dead rank forever, and the engine could not
                # answer.
                self._await(torch.distributed.all_reduce(tensor, operation, group=self._device_group, async_op=True))
            else:
                torch.distributed.all_reduce(tensor, operation)
        except RuntimeError as error:
            raise RankLost(f"a rank is gone or silent: {_first_line(error)}") from None
        return tensor

    def sum_numbers(self, numbers):
        """Adds up a dict of numbers over the ranks."""
        if self.size == 1:
            return numbers
        return dict(zip(numbers, self.sum_(torch.tensor(list(numbers.values()), dtype=torch.float64)).tolist()))

    def _await(self, work):
        deadline = time.monotonic() + self.timeout
        while not work.is_completed():
            if time.monotonic() > deadline:
                raise RankLost(f"no sum over the ranks within {self.timeout:g} s")
            time.sleep(_POLL)
        work.wait()

    def _vote(self, failed, number=0):
        """The votes of all ranks: [(whether it failed, its number)] in order of rank."""
        if self.size == 1:
            return [(failed, number)]
        mine = torch.tensor([int(failed), number])
        votes = [torch.empty_like(mine) for _ in range(self.size)]
        try:
            torch.distributed.all_gather(votes, mine)
        except RuntimeError as error:
            raise RankLost(f"a rank is gone or silent: {_first_line(error)}") from None
        return [(bool(vote[0]), int(vote[1])) for vote in votes]


def checksum(flat):
    """A 64-bit sum of the bits of a float32 or float64 buffer: fast, and equal for equal weights."""
    flat = flat.detach()
    even = len(flat) // 2 * 2
    total = int(flat[:even].view(torch.int64).sum())
    rest = flat[even:].double().view(torch.int64)
    return (total + sum(rest.tolist())) % (1 << 63)


def _first_line(error):
    return (str(error).strip().splitlines() or ["no message"])[0][:300]
