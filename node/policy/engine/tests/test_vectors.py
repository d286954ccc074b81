"""The lines in ../../testdata, which the Go tests write and read too: both sides must agree on their
meaning.
"""

import json
import os
from dataclasses import asdict

import pytest
import torch
from engine import protocol, serve
from engine.session import Session

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "testdata")


def lines(name):
    with open(os.path.join(FOLDER, name), "rb") as file:
        return file.read().splitlines()


REQUESTS = [json.loads(line) for line in lines("requests.jsonl")]
ANSWERS = [json.loads(line) for line in lines("answers.jsonl")]
PARSERS = {
    "hello": protocol.parse_hello, "load": protocol.parse_load, "generate": protocol.parse_generate, "update": protocol.parse_update,
    "logprobs": protocol.parse_logprobs, "save": protocol.parse_save, "saved": protocol.parse_saved, "restore": protocol.parse_restore,
    "configure": protocol.parse_configure, "memory": protocol.parse_nothing, "trim": protocol.parse_nothing, "exit": protocol.parse_nothing,
}  # fmt: skip


@pytest.mark.parametrize("line", lines("requests.jsonl"), ids=[request["call"] for request in REQUESTS])
def test_every_parameter_of_a_request_arrives(line):
    request = protocol.decode(line)
    call, params = protocol.envelope(request)
    parsed = PARSERS[call](params)
    if parsed is None:
        assert call in ("hello", "memory", "trim", "exit")
        return
    # Go omits these fields of a sequence at these values.
    for sequence in params.get("sequences", []):
        sequence.setdefault("advantage", 0.0)
        sequence.setdefault("old_logprobs", None)
        sequence.setdefault("sampling_logprobs", None)
        sequence.setdefault("external", False)
    assert asdict(parsed) == params


def test_requests_name_every_call():
    assert {request["call"] for request in REQUESTS} == set(PARSERS)


@pytest.mark.parametrize("line", lines("answers.jsonl"))
def test_an_answer_is_written_as_the_vector(line):
    expected = json.loads(line)
    answer = {key: value for key, value in expected.items() if key != "id"}
    written = serve.encode(expected["id"], answer)
    assert written.endswith(b"\n") and written.count(b"\n") == 1
    assert json.loads(written) == expected


def fields(value):
    return {key: fields(inner) for key, inner in value.items()} if isinstance(value, dict) else None


def test_results_have_the_fields_of_the_vectors(tmp_path):
    config = dict(model_type="gpt2", n_layer=1, n_head=2, n_embd=8, n_positions=64, vocab_size=257, eos_token_id=256)
    (tmp_path / "config.json").write_text(json.dumps(config))
    session, threads = Session(), torch.get_num_threads()
    for request, answer in zip(REQUESTS, ANSWERS):
        call, params = request["call"], request.get("params", {})
        if call == "exit":
            continue
        if call == "load":
            params = dict(params, model_dir=str(tmp_path), device="cpu", precision="fp32", seed=1, threads=0, memory_cap_bytes=0, ranks=1)
        if call == "save":
            params = dict(params, path=str(tmp_path / "state"))
        if call == "restore":
            params = dict(path=str(tmp_path / "state"))
        result = getattr(session, call)(PARSERS[call](params))
        assert fields(result) == fields(answer["result"]), call
    assert torch.get_num_threads() == threads
