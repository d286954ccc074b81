"""The request loop: reads lines, calls the session, writes one answer per request, in order.

An invalid request gets an error and changes nothing. Only exit, the loss of a rank and the loss of the device
end the process, and the last answer says so. An answer is {"id": N, "result": {...}} or {"id": N, "error":
{"kind": K, "message": M}}, with a "shortage" if memory ran out.
"""

import json
import sys
import traceback

from . import pipe, protocol, shortage
from .crew import ELSEWHERE
from .parallel import Elsewhere, RankLost
from .protocol import BAD_REQUEST, INTERNAL, MAX_LINE, OUT_OF_MEMORY, EngineError

_PARSERS = {
    "hello": protocol.parse_hello,
    "load": protocol.parse_load,
    "generate": protocol.parse_generate,
    "update": protocol.parse_update,
    "logprobs": protocol.parse_logprobs,
    "save": protocol.parse_save,
    "saved": protocol.parse_saved,
    "restore": protocol.parse_restore,
    "configure": protocol.parse_configure,
    "memory": protocol.parse_nothing,
    "trim": protocol.parse_nothing,
}


def serve(requests, write, session):
    """Answers requests (pipe.Requests) by session through write(bytes) until exit is called, or a rank or
    the device is lost.
    """
    while True:
        line = requests.get()
        if line is not pipe.TOO_LONG and not line.strip():
            continue
        number, answer, last = _answer(session, line)
        write(encode(number, answer))
        if last:
            return


def encode(number, answer):
    """Returns one line. A result that JSON cannot represent (NaN, infinity) becomes an internal error."""
    try:
        text = _line(number, answer)
    except ValueError:
        text = _line(number, _error(INTERNAL, "a result is not finite"))
    return text.encode() + b"\n"


def _line(number, answer):
    return json.dumps(dict(answer, id=number), allow_nan=False, separators=(",", ":"))


def _answer(session, line):
    """Returns (id, {"result": …} or {"error": …}, whether this was the last request)."""
    number, problem = 0, None
    try:
        if line is pipe.TOO_LONG:
            raise protocol.bad(f"the line is longer than {MAX_LINE} bytes")
        request = protocol.decode(line)
        number = protocol.request_id(request)
        call, params = protocol.envelope(request)
        if call == "exit":
            protocol.parse_nothing(params)
            return number, {"result": {}}, True
        parse = _PARSERS.get(call)
        if parse is None:
            raise protocol.bad(f"unknown call {call[:40]!r}")
        return number, {"result": getattr(session, call)(parse(params))}, False
    except EngineError as error:
        problem = _error(error.kind, str(error), error.shortage)
    except Elsewhere as error:
        problem = _error(ELSEWHERE, str(error))
    except RankLost as error:
        # The ranks must not wait for each other again, so nothing is freed.
        return number, _error(INTERNAL, f"{error}; the engine ends"), True
    except Exception as error:  # noqa: BLE001 - the parent must get an answer
        text = f"{type(error).__name__}: {shortage.first_line(error)}"
        if shortage.is_out_of_memory(error):
            problem = _error(OUT_OF_MEMORY, text, _described(session, error))
        else:
            traceback.print_exc(file=sys.stderr)
            problem = _error(INTERNAL, text)
    # The exception is gone by now, and with it the frames that held the failed call's tensors.
    if problem["error"]["kind"] == BAD_REQUEST:
        return number, problem, False
    lost = _released(session)
    if lost:
        return number, _error(INTERNAL, f"{problem['error']['message']}; {lost}"), True
    return number, problem, False


def _described(session, error):
    """The Shortage object of a failure, None if it cannot be determined, because the parent must still
    get the failure itself.
    """
    try:
        return session.shortage(error)
    except Exception:  # noqa: BLE001
        traceback.print_exc(file=sys.stderr)
        return None


def _released(session):
    """Frees what a failed call has left. Returns "", or why the engine cannot continue.

    After a fault such as an illegal memory access, CUDA answers every later call of the process with an
    error, and only a new process helps. A failing second call identifies such a fault.
    """
    try:
        session.release()
    except Exception as error:  # noqa: BLE001
        if shortage.is_out_of_memory(error):
            return ""  # a load that found no room for the device's context: there is nothing to free
        traceback.print_exc(file=sys.stderr)
        return f"the engine ends, because it can't free what the call left behind ({type(error).__name__}: {shortage.first_line(error)})"
    return ""


def _error(kind, message, shortage=None):
    error = {"kind": kind, "message": message}
    return {"error": dict(error, shortage=shortage) if shortage else error}
