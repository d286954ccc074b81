"""The archive: its content and its maximum size."""

import os
import random
import sys
import tarfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import evidence  # noqa: E402
from evidence import Evidence  # noqa: E402


def names(archive):
    with tarfile.open(archive) as tar:
        return {member.name.removeprefix("gpu-check/"): tar.extractfile(member).read() for member in tar.getmembers()}


def test_a_homes_logs_and_database_are_kept_while_its_run_goes_on_and_after(tmp_path):
    kept, home = Evidence(tmp_path / "e", tmp_path / "out" / "a.tar.gz"), tmp_path / "home"
    for path in ("swarm.db", "runs/r/coordinator.log", "runs/r/mps/gpu0/server.log", "runs/r/node_0/node.log", "runs/r/node_0/model.safetensors", "runs/r/node_0/journal-00000000.log",
                 "runs/r/exchange/secret.log", "workers/secret.json"):
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text(path)
    kept.path("engine/engine.log").write_text("an engine's words")
    kept.watch_home("swarm/lease", home)
    kept.pack()
    live = names(kept.archive)
    kept.keep_home("swarm/lease")
    kept.pack()
    wanted = {f"swarm/lease/home/{p}" for p in ("swarm.db", "runs/r/coordinator.log", "runs/r/mps/gpu0/server.log", "runs/r/node_0/node.log")}
    wanted.add("engine/engine.log")
    assert set(live) == wanted == set(names(kept.archive))


def test_the_archive_is_bounded_and_says_what_it_lacks(tmp_path, monkeypatch):
    monkeypatch.setattr(evidence, "LIMIT", 512 << 10)
    kept, noise = Evidence(tmp_path / "e", tmp_path / "a.tar.gz"), random.Random(0)
    kept.path("small.log").write_bytes(b"small")
    for i in range(4):
        kept.path(f"noise{i}.db").write_bytes(noise.randbytes(200 << 10))
    kept.path("long.log").write_bytes(b"begin" + b"x" * (3 << 20) + b"end")
    kept.pack()
    found = names(kept.archive)
    assert os.path.getsize(kept.archive) <= 512 << 10 and found["small.log"] == b"small"
    assert found["long.log"].startswith(b"begin") and found["long.log"].endswith(b"end") and len(found["long.log"]) < 2 << 20
    left_out = found["LEFT_OUT.txt"].decode()
    assert "noise" in left_out and sum(name.startswith("noise") for name in found) + left_out.count("noise") == 4
