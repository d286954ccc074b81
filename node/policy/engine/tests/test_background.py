"""Background checkpoints: the file holds the state at the time of the call, whatever happens later to
engine, disk or memory.
"""

import _thread
import hashlib
import json
import os
import signal
import subprocess
import threading
import time

import pytest
import torch
from engine import protocol, shortage, snapshot, weights
from engine.aside import Aside
from engine.protocol import EngineError
from engine.session import Session
from test_process import CONFIG, DEADLINE, Engine

SEQUENCES = [protocol.Sequence(0, [4, 5, 13], 1.0), protocol.Sequence(1, [6, 7], -1.0)]
UPDATE = protocol.Update([[1, 2], [3]], SEQUENCES, learning_rate=0.01)


def open_session(folder, **config):
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(dict(CONFIG, **config)))
    session = Session()
    session.load(protocol.Load(str(folder), random_init=True, seed=3))
    return session


@pytest.fixture
def session(tmp_path):
    return open_session(tmp_path / "model")


@pytest.fixture
def disk(monkeypatch):
    """A disk on which fsync waits until `go` is set."""
    go, real = threading.Event(), os.fsync

    def fsync(fd):
        assert go.wait(DEADLINE)
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    yield go
    go.set()


def save(session, path, **options):
    return session.save(protocol.Save(str(path), **dict(dict(background=True, metadata={"round": "7"}), **options)))


def saved(session, wait=True):
    return session.saved(protocol.Saved(wait))


@pytest.mark.parametrize("times", [1, 2])
def test_a_write_that_runs_out_of_memory_is_made_once_more_from_its_copy(session, tmp_path, monkeypatch, times):
    session.update(UPDATE)
    expected, failures, real = weights.weight_hash(session._trainer.model.tensors), [MemoryError()] * times, weights.write

    def write(*arguments):
        if failures:
            raise failures.pop()
        return real(*arguments)

    monkeypatch.setattr(weights, "write", write)
    save(session, tmp_path / "ck")
    session.update(UPDATE)
    if times == 2:
        with pytest.raises(MemoryError):
            saved(session)
        assert os.listdir(tmp_path) == ["model"]
        return
    result = saved(session)
    assert result["weight_hash"] == expected != weights.weight_hash(session._trainer.model.tensors)
    assert result["sha256"] == hashlib.sha256((tmp_path / "ck").read_bytes()).hexdigest()


def test_updates_during_the_write_are_not_in_it(session, tmp_path, disk):
    session.update(UPDATE)
    expected = {name: tensor.clone() for name, tensor in session._trainer.model.tensors.items()}
    answer = save(session, tmp_path / "ck")
    assert answer["pending"] and answer["pause"] > 0 and (answer["bytes"], answer["sha256"], answer["weight_hash"]) == (0, "", "")
    session.update(UPDATE)
    assert saved(session, wait=False) == answer
    assert not (tmp_path / "ck").exists()
    disk.set()
    result = saved(session)
    assert not result["pending"] and result["pause"] == answer["pause"] < result["seconds"]
    data = (tmp_path / "ck").read_bytes()
    assert (result["bytes"], result["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
    assert result["weight_hash"] == weights.weight_hash(expected)

    after = session._trainer.model.flat.clone()
    restored = session.restore(protocol.Restore(str(tmp_path / "ck"), result["sha256"]))
    assert restored == dict(metadata={"round": "7"}, weight_hash=result["weight_hash"], step=1)
    session.update(UPDATE)
    assert torch.equal(session._trainer.model.flat, after)


def test_the_file_is_that_of_a_save_in_the_foreground(session, tmp_path):
    session.update(UPDATE)
    save(session, tmp_path / "one")
    behind, before = saved(session), save(session, tmp_path / "other", background=False)
    assert not before["pending"] and before["pause"] == before["seconds"]
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()
    assert {behind[name] == before[name] for name in ("bytes", "sha256", "weight_hash")} == {True}
    assert sorted(os.listdir(tmp_path)) == ["model", "one", "other"]


@pytest.mark.parametrize("call", ["save", "restore", "load"])
def test_calls_that_need_the_file_wait_for_it(session, tmp_path, disk, call):
    save(session, tmp_path / "ck")
    work = {
        "save": lambda: save(session, tmp_path / "later"),
        "restore": lambda: session.restore(protocol.Restore(str(tmp_path / "ck"))),
        "load": lambda: session.load(protocol.Load(str(tmp_path / "model"), random_init=True)),
    }[call]
    ended = threading.Event()
    thread = threading.Thread(target=lambda: (work(), ended.set()))
    thread.start()
    assert not ended.wait(0.2)
    disk.set()
    assert ended.wait(DEADLINE) and (tmp_path / "ck").exists()
    thread.join()
    saved(session)


def test_a_result_is_given_once(session, tmp_path):
    for _ in range(2):
        with pytest.raises(EngineError, match="no checkpoint is being written") as error:
            saved(session)
        assert error.value.kind == "bad_request"
        save(session, tmp_path / "ck")
        assert saved(session)["bytes"] == os.path.getsize(tmp_path / "ck")


def test_a_failure_is_told_once_and_the_next_save_succeeds(session, tmp_path):
    (tmp_path / "file").write_text("")
    save(session, tmp_path / "file" / "ck")
    with pytest.raises(EngineError, match="file/ck") as error:
        saved(session)
    assert error.value.kind == "checkpoint"
    save(session, tmp_path / "ck")
    assert saved(session)["bytes"] > 0


@pytest.mark.parametrize("room", [0, 1 << 12])
def test_without_room_for_a_copy_the_file_is_written_before_the_answer(session, tmp_path, monkeypatch, room):
    monkeypatch.setattr(shortage, "host_room", lambda: room)
    answer = save(session, tmp_path / "ck")
    assert not answer["pending"] and answer["bytes"] == os.path.getsize(tmp_path / "ck") and answer["pause"] == answer["seconds"]
    with pytest.raises(EngineError, match="no checkpoint"):
        saved(session)


def test_a_copy_that_finds_no_memory_after_all_is_done_without(session, tmp_path, monkeypatch):
    def full(_):
        raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes")

    with monkeypatch.context() as patch:
        patch.setattr(snapshot, "_copy", full)
        answer = save(session, tmp_path / "ck")
    assert not answer["pending"] and answer["bytes"] == os.path.getsize(tmp_path / "ck")


def test_where_the_system_gives_no_thread_all_is_done_in_the_foreground(session, tmp_path, monkeypatch):
    def refused(*_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(_thread, "start_new_thread", refused)
    save(session, tmp_path / "ck")
    assert saved(session, wait=False)["bytes"] == os.path.getsize(tmp_path / "ck")


def test_work_aside_is_done_in_order_and_its_error_is_told():
    done = []
    with Aside() as aside:
        futures = [aside.do(done.append, i) for i in range(100)]
        broken = aside.do(lambda: 1 // 0)
    assert done == list(range(100)) and all(future.done() for future in futures)
    with pytest.raises(ZeroDivisionError):
        broken.result()


def test_another_models_checkpoint_is_refused_in_one_line_that_names_both(session, tmp_path):
    save(open_session(tmp_path / "deep", n_layer=3, n_embd=48), tmp_path / "ck", background=False)
    before = session._trainer.model.flat.clone()
    with pytest.raises(EngineError) as error:
        session.restore(protocol.Restore(str(tmp_path / "ck")))
    line = str(error.value)
    assert error.value.kind == "checkpoint" and "\n" not in line
    assert "gpt2 (layers 3, width 48" in line and "gpt2 (layers 2, width 32" in line and "layers is 3 instead of 2" in line
    assert torch.equal(session._trainer.model.flat, before)


def test_the_loss_scale_goes_on_where_it_was(session, tmp_path):
    """float16 needs a GPU to run, but its saved state does not."""
    trainer = session._trainer
    save(session, tmp_path / "plain", background=False)
    trainer.autocast = torch.float16
    trainer.set_scale(1024.0, 77)
    save(session, tmp_path / "half", background=False)
    trainer.set_scale(2.0, 5)
    session.restore(protocol.Restore(str(tmp_path / "half")))
    assert (trainer.scale, trainer.gradients) == (1024.0, 77)
    session.restore(protocol.Restore(str(tmp_path / "plain")))  # a checkpoint from before the scale existed
    assert (trainer.scale, trainer.gradients) == (65536.0, 0)
    trainer.autocast, trainer.scale = None, 1.0
    session.restore(protocol.Restore(str(tmp_path / "half")))
    assert trainer.scale == 1.0


# Tests with real processes.

def stuck_engine(marker, reached):
    """An engine with a disk that hangs once the file marker exists. It then creates the file reached."""
    code = (
        "import os, sys, time\n"
        "from engine import __main__\n"
        f"marker, reached, real = {str(marker)!r}, {str(reached)!r}, os.fsync\n"
        "def fsync(fd):\n"
        "    if os.path.exists(marker):\n"
        "        open(reached, 'w').close()\n"
        "        time.sleep(600)\n"
        "    real(fd)\n"
        "os.fsync = fsync\n"
        "__main__.main()\n"
    )
    return Engine(code)


def wait_for(path):
    deadline = time.monotonic() + DEADLINE
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_killed_in_the_middle_the_old_checkpoint_stays_and_the_next_save_clears_up(tmp_path):
    model, folder = tmp_path / "model", tmp_path / "node"
    model.mkdir()
    (model / "config.json").write_text(json.dumps(CONFIG))
    load = dict(model_dir=str(model), random_init=True, seed=3, threads=1)
    update = dict(prompts=[[1, 2]], sequences=[dict(prompt=0, completion=[4, 5], advantage=1.0)], learning_rate=0.01)
    marker, reached, path = tmp_path / "marker", tmp_path / "reached", folder / "checkpoint-00000001.safetensors"
    engine = stuck_engine(marker, reached)
    try:
        engine.result("load", **load)
        good = engine.result("save", path=str(path), background=False)
        marker.touch()
        assert engine.result("save", path=str(path), background=True)["pending"]
        wait_for(reached)
        assert engine.result("update", **update)["steps"] == 1  # the engine works meanwhile
        assert engine.result("saved", wait=False)["pending"]
        engine.process.send_signal(signal.SIGKILL)
        engine.wait()
    finally:
        engine.close()
    partial = f"{path.name}.{engine.process.pid}.partial.tmp"
    assert sorted(os.listdir(folder)) == [path.name, partial]
    alive = f"checkpoint-00000009.safetensors.{os.getpid()}.partial.tmp"
    (folder / alive).touch()
    (folder / "mine.tmp").touch()
    other = Engine()
    try:
        other.result("load", **load)
        assert other.result("restore", path=str(path), sha256=good["sha256"])["weight_hash"] == good["weight_hash"]
        other.result("save", path=str(folder / "checkpoint-00000002.safetensors"), background=True)
        other.result("saved", wait=True)
    finally:
        other.close()
    assert sorted(os.listdir(folder)) == [path.name, "checkpoint-00000002.safetensors", alive, "mine.tmp"]


def test_the_end_of_stdin_does_not_wait_for_the_file(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    marker, reached = tmp_path / "marker", tmp_path / "reached"
    engine = stuck_engine(marker, reached)
    try:
        engine.result("load", model_dir=str(tmp_path), random_init=True, threads=1)
        marker.touch()
        engine.result("save", path=str(tmp_path / "node" / "ck"), background=True)
        wait_for(reached)
        engine.process.stdin.close()
        assert engine.wait() == 0
    finally:
        engine.close()


def test_a_full_disk_is_told_by_saved_and_leaves_no_file(tmp_path):
    """Uses a small file system if this user may mount one, else the kernel's limit on file size."""
    model, folder = tmp_path / "model", tmp_path / "node"
    for path in (model, folder):
        path.mkdir()
    (model / "config.json").write_text(json.dumps(CONFIG))
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(folder)], stderr=subprocess.DEVNULL).returncode == 0
    limit = "" if mounted else "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))\n"
    engine = Engine(limit + "from engine import __main__\n__main__.main()\n")
    try:
        engine.result("load", model_dir=str(model), random_init=True, threads=1)
        for _ in range(2):
            assert engine.result("save", path=str(folder / "ck"), background=True)["pending"]
            error = engine.error("saved", wait=True)
            assert error["kind"] == "checkpoint" and str(folder / "ck") in error["message"]
            assert ("No space left" if mounted else "too large") in error["message"]
            assert os.listdir(folder) == []
    finally:
        engine.close()
        if mounted:
            subprocess.run(["umount", str(folder)], check=True)


def test_only_checkpoints_are_saved_in_the_background():
    with pytest.raises(EngineError, match="background"):
        protocol.parse_save(dict(path="x", format="huggingface", background=True))
