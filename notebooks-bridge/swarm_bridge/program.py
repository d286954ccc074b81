"""Finding and calling the swarm program."""

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
    """Returns the path of the swarm program: $SWARM_PROGRAM, on PATH, beside this package (as in a checkout:
    ../../bin/swarm), or ./bin/swarm.

    Raises SwarmError if there is none, or if SWARM_PROGRAM is not a program.
    """
    named = os.environ.get("SWARM_PROGRAM", "")
    if named:
        found = shutil.which(named)
        if found is None:
            raise SwarmError("bad SWARM_PROGRAM {!r}: not a program".format(named), USAGE, "the path of the program that make built")
        return os.path.abspath(found)
    beside = [LIBRARY / "swarm", LIBRARY.parent / "bin" / "swarm", LIBRARY.parent.parent / "bin" / "swarm", Path.cwd() / "bin" / "swarm"]
    for path in [shutil.which("swarm")] + [str(p) for p in beside]:
        if path and os.path.isfile(path) and os.access(path, os.X_OK):
            return os.path.abspath(path)
    raise SwarmError("found no swarm program on PATH, beside swarm_bridge or in ./bin", USAGE,
                     "make in a checkout of swarm, or SWARM_PROGRAM=/path/to/swarm")


def home_folder(home=None):
    """Returns the folder of runs and the database: home, $SWARM_HOME, $XDG_DATA_HOME/swarm or ~/.local/share/swarm.
    """
    if home:
        return os.path.abspath(os.path.expanduser(os.fspath(home)))
    if os.environ.get("SWARM_HOME"):
        return os.path.abspath(os.environ["SWARM_HOME"])
    if os.environ.get("XDG_DATA_HOME"):
        return os.path.abspath(os.path.join(os.environ["XDG_DATA_HOME"], "swarm"))
    return os.path.join(os.path.expanduser("~"), ".local", "share", "swarm")


def arguments(flags):
    """Converts Python keywords to command-line flags: rounds=40 is --rounds=40, cpu_fallback=True is
    --cpu-fallback=true, None is left out.

    A list or tuple is one flag for each of its values. A dictionary is one key=value flag for each of its items
    (set={"tasks.set": "nano"}).
    """
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
    """Returns this process's environment. If this interpreter has torch and no other is set, nodes use it, because a
    notebook's kernel may not be on PATH.
    """
    env = dict(os.environ)
    if not env.get("SWARM_PYTHON") and sys.executable and importlib.util.find_spec("torch") is not None:
        env["SWARM_PYTHON"] = sys.executable
    return env


def start(args, home, extra=None, **options):
    """Starts the program. extra has environment variables, options are subprocess.Popen's. Raises SwarmError if it
    can't be started.
    """
    program = find_program()
    try:
        return subprocess.Popen([program, "--home", home] + list(args), stdin=subprocess.DEVNULL, env=dict(environment(), **(extra or {})), **options)
    except OSError as error:
        raise SwarmError("{} can't be started: {}".format(program, error.strerror or error), USAGE,
                         "a swarm program built for this machine (SWARM_PROGRAM)") from error


def call(args, home, allowed=(0,), extra=None, told=None):
    """Runs the program to its end and returns its stdout. An interrupt here is passed on to the program, and the call
    waits for its end.

    extra has environment variables. told is called with each line of its stderr as it arrives, except those of an
    error. Raises SwarmError with the program's own error if the exit code isn't allowed.
    """
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "encoding": "utf-8", "errors": "replace", "start_new_session": True}
    out, err = [], []
    with start(args, home, extra, **options) as child:
        reader = threading.Thread(target=lambda: out.append(child.stdout.read()), daemon=True)
        reader.start()
        try:
            failing = False  # inside an error's lines
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
    """Returns the JSON document of a command with -o json; if it prints several, one per line, the last. options are
    call's.
    """
    out = call(list(args) + ["-o", "json"], home, allowed, **options)
    try:
        return json.loads(out)
    except ValueError:
        pass
    try:
        return json.loads(out.strip().splitlines()[-1])
    except (ValueError, IndexError):
        raise SwarmError("swarm {} printed no JSON: {!r}".format(args[0], out[:200])) from None
