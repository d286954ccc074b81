"""Swarms across hosts: one coordinator and one worker, each with its own home."""

import glob
import os
import time

import pytest

import swarm_bridge
from swarm_bridge import company, page
from swarm_bridge import program as calling

SMALL = {"nodes": 1, "model": "nano", "device": "cpu"}
SWARM = dict(SMALL, rounds=5000, eval_questions=0, num_generations=2, max_completion_length=8)
HOSTILE = "<script>alert('x')</script>"


@pytest.fixture(scope="module")
def friends(tmp_path_factory, program):
    """The coordinator's run and a worker's run, over the network."""
    folder = tmp_path_factory.mktemp("friends")
    first = swarm_bridge.up(home=folder / "first", listen="127.0.0.1:0", **SWARM)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("GDRIVE_PATH", str(folder))  # the predecessor's: an explicit invitation wins
            second = swarm_bridge.join(first.invitation, home=folder / "second", name="anna", **SMALL)
        try:
            yield first, second
        finally:
            second.stop(now=True)
    finally:
        first.stop(now=True)


def test_a_host_that_joined_has_a_run_of_its_own(friends):
    first, second = friends
    assert (first.name, second.name) == ("4loc4ext-1", "4loc4ext-1.anna-1") and second.invitation is None
    assert [n["id"] for n in second.status()["nodes"]] == ["anna_0"] and second.status()["rounds"] == 5000
    assert swarm_bridge.attach(home=second.home).name == second.name


def test_a_part_that_goes_on_is_found_again(friends, tmp_path, monkeypatch, program):
    first, second = friends
    assert swarm_bridge.join(first.invitation, home=second.home, name="anna", attach=True, **SMALL).name == second.name
    script = tmp_path / "swarm"  # a program that refuses a worker which is already running, after a while
    refusal = "Error: hello: worker anna is already connected from vm. Try: another name"
    script.write_text("#!/bin/sh\ncase $3 in join) echo '{}' >&2; exit 2;; esac\nexec {} \"$@\"\n".format(refusal, program))
    script.chmod(0o755)
    monkeypatch.setenv("SWARM_PROGRAM", str(script))
    assert swarm_bridge.join(first.invitation, home=second.home, attach=True, **SMALL).name == second.name
    for elsewhere in ({"home": second.home}, {"home": tmp_path / "other", "attach": True}):
        with pytest.raises(swarm_bridge.SwarmError, match="already connected"):
            swarm_bridge.join(first.invitation, **dict(SMALL, **elsewhere))


def test_the_coordinator_knows_who_joined(friends):
    first, second = friends
    deadline = time.monotonic() + 300
    while not [w for w in first.workers() if w["nodes"]] and time.monotonic() < deadline:
        time.sleep(0.1)
    told = first.workers()
    assert [(w["worker"], w["state"], w["nodes"]) for w in told] == [("anna", "connected", 1)]
    assert told.run == first.name and {(e["name"], e["kind"]) for e in told.listed} == {("anna", "worker"), ("invitation", "invitation")}
    assert "anna" in str(told) and "<td" in told._repr_html_() and list(told.frame()["worker"]) == ["anna"]
    assert {n["id"]: n["worker"] for n in first.status()["nodes"]} == {"node_0": "", "anna_0": "anna"}
    assert [row.split()[-1] for row in page.text(first.status()).splitlines()[1:]] == ["worker", "0", "anna"]
    assert [w["worker"] for w in first.rows("workers")] == ["anna"]
    with pytest.raises(swarm_bridge.SwarmError, match="another host coordinates") as refused:
        second.workers()
    assert refused.value.code == 2 and refused.value.remedy


def test_the_invitation_is_in_no_processs_arguments(friends):
    first, second = friends
    secret = company.bare(first.invitation).partition("#")[2]
    assert len(secret) >= 16
    seen = 0
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as file:
                line = file.read()
        except OSError:
            continue
        seen += b"\0join\0" in line and os.fsencode(second.home) in line
        assert secret.encode() not in line
    assert seen, "the worker's process was not among them"


def test_the_line_is_said_again_and_one_for_a_person_is_another(friends):
    first, _ = friends
    assert swarm_bridge.invite(home=first.home) == first.invitation
    one = swarm_bridge.invite("ben", once=True, home=first.home)
    assert one.startswith("swarm join 'tls://127.0.0.1:") and one != first.invitation


@pytest.mark.parametrize("arguments, says", [
    ({"invitation": "nonsense"}, "not an invitation"), ({}, "needs an invitation"), ({"invitation": "tls://h:1#t", "shared": "."}, "exclude each other"),
    ({"shared": "/nowhere at all", "experiment": "e"}, "mount it first"), ({"shared": "/"}, "experiment"), ({"colour": "red"}, "--colour"),
    ({"invitation": "tls://h:1?fp=x#t", "rounds": 4}, "--rounds"),
])
def test_what_is_wrong_with_a_joining_is_told(tmp_path, arguments, says):
    with pytest.raises(swarm_bridge.SwarmError) as refused:
        swarm_bridge.join(home=tmp_path / "home", **arguments)
    assert refused.value.code == 2 and says in str(refused.value) and "\n" not in str(refused.value)


def test_a_wrong_token_is_told(friends, tmp_path):
    wrong = company.bare(friends[0].invitation)[:-4] + "AAAA"
    with pytest.raises(swarm_bridge.SwarmError) as refused:
        swarm_bridge.join(wrong, home=tmp_path / "home", **SMALL)
    assert refused.value.code == 2 and refused.value.remedy and wrong.partition("#")[2] not in str(refused.value)


def test_waiting_for_an_experiment_is_told_and_can_be_given_up(tmp_path, monkeypatch):
    said = []

    def interrupt(line):
        said.append(line)
        raise KeyboardInterrupt
    monkeypatch.setattr(company, "print", interrupt, raising=False)
    (tmp_path / "shared").mkdir()
    with pytest.raises(KeyboardInterrupt):
        swarm_bridge.join(shared=tmp_path / "shared", experiment="later", node_id="node_1", home=tmp_path / "home", **SMALL)
    assert said[0].lower().startswith("waiting ") and "for the experiment later" in said[0]
    assert not swarm_bridge.runs(home=tmp_path / "home")


def test_what_the_program_says_meanwhile_is_told_but_not_its_error(tmp_path, monkeypatch):
    script = tmp_path / "swarm"
    script.write_text("#!/bin/sh\necho waiting >&2\necho 'Error: gone' >&2\necho 'Try: again' >&2\nhead -c 300000 /dev/zero\nexit $CODE\n")
    script.chmod(0o755)
    monkeypatch.setenv("SWARM_PROGRAM", str(script))
    said = []
    assert len(calling.call(["x"], str(tmp_path), extra={"CODE": "0"}, told=said.append)) == 300000
    assert said == ["waiting"]
    with pytest.raises(swarm_bridge.SwarmError, match="^gone. Try: again$") as refused:
        calling.call(["x"], str(tmp_path), extra={"CODE": "3"})
    assert refused.value.code == 3


@pytest.mark.parametrize("line, is_", [
    ("swarm join 'tls://h:4222?fp=a_-#t'", "tls://h:4222?fp=a_-#t"), ("  tls://h:1,[::1]:2?fp=a#t\n", "tls://h:1,[::1]:2?fp=a#t"),
    ("swarm join 'nats://a:1,b:2#t' --nats-creds FILE", "nats://a:1,b:2#t"), (" nonsense ", "nonsense"),
])
def test_an_invitation_is_found_in_the_line_that_was_handed_out(line, is_):
    assert company.bare(line) == is_


def test_nobody_joined(finished):
    told = swarm_bridge.workers("4loc4ext", home=finished)
    assert (list(told), told.run, told.listed) == ([], "4loc4ext-1", [])
    with pytest.raises(swarm_bridge.SwarmError, match="no (such )?run or experiment"):
        swarm_bridge.workers("nope", home=finished)
    with pytest.raises(swarm_bridge.SwarmError, match="no worker has been admitted yet.*Try: swarm up --listen") as closed:
        swarm_bridge.invite(home=finished)
    assert closed.value.code == 2


def test_a_workers_words_are_no_markup():
    row = {"worker": HOSTILE, "state": "left", "nodes": 1, "rounds": 2, "device": HOSTILE, "host": HOSTILE, "useful_ratio": 0.5, "rollouts_used": 3,
           "refused": 1, "reason": HOSTILE + "\n" + HOSTILE}
    told = company.Workers({"run": "r", "workers": [row, dict(row, useful_ratio=None)], "listed": []})
    assert "<script" not in told._repr_html_() and "&lt;script" in told._repr_html_() and "50 %" in str(told)
