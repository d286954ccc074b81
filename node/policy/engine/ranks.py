"""The session of one rank among several, and that of rank 0, between the parent and the other ranks.

A call's answer equals that of an engine with one rank, because rank 0 joins the ranks' parts. Only rank 0
saves, because all ranks hold the same weights. In an engine with one rank, the usual case, either class works
like Session.
"""

import os
from dataclasses import asdict, replace

import torch

from .crew import Crew
from .parallel import Elsewhere, Group, RankLost, checksum
from .protocol import BAD_REQUEST, DEVICE, INTERNAL, EngineError
from .session import Session


class Member(Session):
    """A session that runs its calls together with the other ranks of group."""

    def __init__(self, group):
        super().__init__()
        self._group = group

    def load(self, request):
        def work():
            result = Session.load(self, request)
            self._group.agree()  # all ranks have opened their device
            self._group.open(self._device)
            self._trainer.group = self._group
            return result

        self._group.join()
        return self._group.run(work, self._mark)

    def generate(self, request):
        return self._group.run(lambda: Session.generate(self, request))

    def update(self, request):
        return self._group.run(lambda: Session.update(self, request), self._mark)

    def logprobs(self, request):
        return self._group.run(lambda: Session.logprobs(self, request))

    def restore(self, request):
        return self._group.run(lambda: Session.restore(self, request), self._mark)

    def configure(self, request):
        return self._group.run(lambda: Session.configure(self, request))

    def trim(self, request):
        return self._group.run(lambda: Session.trim(self, request))

    def _mark(self):
        return checksum(self._trainer.model.flat)


class Leader(Member):
    """Rank 0. `load` sets the number of ranks. Before it, and with one rank, this is a session alone."""

    def __init__(self):
        super().__init__(Group())
        self._crew = None
        self._store = -1

    def load(self, request):
        """Like Session's. Ends the ranks of the previous load first, and the new ones if the load fails."""
        if self._crew is None and request.ranks == 1:
            return super().load(request)
        self._dismiss()
        self._forget()
        try:
            if request.ranks > 1:
                check_devices(request)
                self._store = os.memfd_create("ranks")  # needs no cleanup, however this process ends
                self._group = Group(0, request.ranks, store_path(self._store))
                self._crew = Crew(request.ranks, self._store)
            each = [_of_rank(request, rank) for rank in range(request.ranks)]
            results = self._together("load", each, super().load)
        except RankLost:
            raise  # the engine ends: leaving the group might wait for the lost rank
        except BaseException:
            self._forget()
            self._dismiss()
            raise
        return self._joined(results)

    def generate(self, request):
        results = self._all("generate", request, super().generate)
        merged = self._joined(results)
        if len(results) > 1:
            new_tokens = [result["new_tokens"] for result in results]
            for name in ("completions", "logprobs", "terminated"):
                merged[name] = [item for result in results for item in result[name]]
            merged["new_tokens"] = sum(new_tokens)
            merged["entropy"] = sum(r["entropy"] * n for r, n in zip(results, new_tokens)) / sum(new_tokens)
            merged["prefill_tokens"] = sum(map(len, request.prompts))
        return merged

    def update(self, request):
        return self._joined(self._all("update", request, super().update))

    def logprobs(self, request):
        parts = [result["logprobs"] for result in self._all("logprobs", request, super().logprobs)]
        return {"logprobs": [next(row for row in rows if row is not None) for rows in zip(*parts)]}

    def restore(self, request):
        return self._all("restore", request, super().restore)[0]

    def configure(self, request):
        return self._memory(self._all("configure", request, super().configure))

    def memory(self, request):
        return self._memory(self._all("memory", request, super().memory))

    def trim(self, request):
        return self._memory(self._all("trim", request, super().trim))

    def _all(self, call, request, work):
        return self._together(call, [request] * self._group.size, work)

    def _together(self, call, requests, work):
        """Runs work(request) here and the call on the other ranks. Returns all results, in order of rank."""
        if self._crew is None:
            return [work(requests[0])]
        try:
            self._crew.send(call, [_params(request) for request in requests[1:]])
            mine, problem = None, None
            try:
                mine = work(requests[0])
            except Elsewhere as error:
                problem = EngineError(INTERNAL, str(error))
            except RankLost:
                raise
            except BaseException:
                self._crew.receive(self._group.timeout)  # the others' answers say only that one rank has failed
                raise
            answers = self._crew.receive(self._group.timeout)
        except RankLost as error:
            found = self._crew.lost(error)
            self._crew.kill()
            raise found from None
        results = self._crew.results(answers)
        if problem is not None:
            raise problem
        return [mine, *results]

    def _joined(self, results):
        return dict(results[0], memory=self._memory([result["memory"] for result in results]))

    def _memory(self, parts):
        """Memory of several processes: the sum of host memory, and the fullest of the devices, one per
        rank.
        """
        if len(parts) == 1:
            return parts[0]
        merged = {name: max(part[name] for part in parts) for name in parts[0]}
        for name in ("device_free_bytes", "device_total_bytes"):
            merged[name] = min(part[name] for part in parts)
        together = ["rss_bytes", "peak_rss_bytes", "anonymous_bytes"]
        if self._device is None or self._device.type == "cpu":
            together += ["call_begin_bytes", "call_peak_bytes"]
        for name in together:
            merged[name] = sum(part[name] for part in parts)
        return merged

    def _dismiss(self):
        """Ends the other ranks, if there are any."""
        if self._crew is not None:
            self._crew.close()
        self._group.leave()
        if self._store >= 0:
            os.close(self._store)
        self._group, self._crew, self._store = Group(), None, -1


def store_path(fd):
    """The path of the ranks' rendezvous file, from the descriptor under which each rank has it open."""
    return f"/proc/self/fd/{fd}"


def check_devices(request):
    """Raises EngineError unless every rank can have its own device, or all are on the CPU."""
    if request.device == "cpu":
        return
    if request.device not in ("cuda", "cuda:0"):
        raise EngineError(BAD_REQUEST, f"ranks = {request.ranks} take cuda:0 and up: device must be cuda, not {request.device!r}")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if count < request.ranks:
        raise EngineError(DEVICE, f"ranks = {request.ranks}, but torch {torch.__version__} finds {count} CUDA devices")


def _of_rank(request, rank):
    if request.ranks == 1:
        return request
    if request.device == "cpu":
        return replace(request, threads=max(1, request.threads // request.ranks) if request.threads else 0)
    return replace(request, device=f"cuda:{rank}")


def _params(request):
    """The params object that parses to request. None stands for a call without parameters."""
    return {} if request is None else _without_none(asdict(request))


def _without_none(value):
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    return [_without_none(item) for item in value] if isinstance(value, list) else value
