"""The swarm program: where it is, and one call of it."""

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

from .errors import USAGE, SwarmError, from_output

LIBRARY = Path(__file__).resolve().parent


def find_program():
    """The path of the swarm program: $SWARM_PROGRAM, on PATH, beside this package (as in a checkout: ../../bin/swarm), or ./bin/swarm.

    Raises SwarmError when there is none, or when SWARM_PROGRAM names something that isn't a program.
    """
    named = os.environ.get("SWARM_PROGRAM", "")
    if named:
        found = shutil.which(named)
        if found is None:
            raise SwarmError("SWARM_PROGRAM is {!r}, which is no program".format(named), USAGE, "the path of a swarm that was built with make")
        return os.path.abspath(found)
    beside = [LIBRARY / "swarm", LIBRARY.parent / "bin" / "swarm", LIBRARY.parent.parent / "bin" / "swarm", Path.cwd() / "bin" / "swarm"]
    for path in [shutil.which("swarm")] + [str(p) for p in beside]:
        if path and os.path.isfile(path) and os.access(path, os.X_OK):
            return os.path.abspath(path)
    raise SwarmError("there is no swarm program on PATH, beside swarm_bridge or in ./bin", USAGE,
                     "make in a checkout of swarm, or SWARM_PROGRAM=/path/to/swarm")


def home_folder(home=None):
    """The folder that runs and the database live in: home, $SWARM_HOME, $XDG_DATA_HOME/swarm or ~/.local/share/swarm."""
    if home:
        return os.path.abspath(os.path.expanduser(os.fspath(home)))
    if os.environ.get("SWARM_HOME"):
        return os.path.abspath(os.environ["SWARM_HOME"])
    if os.environ.get("XDG_DATA_HOME"):
        return os.path.abspath(os.path.join(os.environ["XDG_DATA_HOME"], "swarm"))
    return os.path.join(os.path.expanduser("~"), ".local", "share", "swarm")


def arguments(flags):
    """Command line flags of Python's keywords: rounds=40 is --rounds=40, cpu_fallback=True is --cpu-fallback=true, None is left out, a list
    or tuple is one flag for each of its values, and a dictionary one of key=value for each of its items (set={"tasks.set": "nano"})."""
    out = []
    for name, value in flags.items():
        flag = "--" + name.replace("_", "-")
        if isinstance(value, dict):
            value = ["{}={}".format(k, _text(v)) for k, v in value.items()]
        for one in value if isinstance(value, (list, tuple)) else [value]:
            if one is not None:
                out.append(flag + "=" + _text(one))
    return out


def _text(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def environment():
    """This process's, with this interpreter as the one for nodes if it has torch and no other is named: a notebook's kernel may be in no PATH."""
    env = dict(os.environ)
    if not env.get("SWARM_PYTHON") and sys.executable and importlib.util.find_spec("torch") is not None:
        env["SWARM_PYTHON"] = sys.executable
    return env


def start(args, home, extra=None, **options):
    """Starts the program; extra are variables of its environment, options are subprocess.Popen's. Raises SwarmError when it can't be started."""
    program = find_program()
    try:
        return subprocess.Popen([program, "--home", home] + list(args), stdin=subprocess.DEVNULL, env=dict(environment(), **(extra or {})), **options)
    except OSError as error:
        raise SwarmError("{} can't be started: {}".format(program, error.strerror or error), USAGE,
                         "a swarm that was built for this machine (SWARM_PROGRAM)") from error


def call(args, home, allowed=(0,), extra=None, told=None):
    """Runs the program to its end and returns what it printed to stdout. An interrupt here is passed on to it, and waited for. extra are variables
    of its environment; told is called with each line that it prints to stderr, when it does, but for those of an error.

    Raises SwarmError with the program's own words when it ends with a code that isn't allowed.
    """
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "encoding": "utf-8", "errors": "replace", "start_new_session": True}
    out, err = [], []
    with start(args, home, extra, **options) as child:
        reader = threading.Thread(target=lambda: out.append(child.stdout.read()), daemon=True)
        reader.start()
        try:
            failing = False  # within an error's lines
            for line in child.stderr:
                err.append(line)
                failing = line.startswith(("Error: ", "Try: ")) or failing and line.startswith("  ")
                if told and not failing:
                    told(line.rstrip("\n"))
        except KeyboardInterrupt:
            child.send_signal(signal.SIGINT)
            child.stderr.read()
            raise
        finally:
            reader.join()
    if child.returncode not in allowed:
        raise from_output("".join(err), child.returncode, "swarm " + args[0])
    return "".join(out)


def document(args, home, allowed=(0,), **options):
    """The one JSON document that a command prints with -o json; of several lines with one each, the last. options are call's."""
    out = call(list(args) + ["-o", "json"], home, allowed, **options)
    try:
        return json.loads(out)
    except ValueError:
        pass
    try:
        return json.loads(out.strip().splitlines()[-1])
    except (ValueError, IndexError):
        raise SwarmError("swarm {} printed no JSON: {!r}".format(args[0], out[:200])) from None
