"""Ends the process: at once, or under NVIDIA MPS after the device has finished its work. Must not import
torch.

An MPS client that ends with outstanding work can leave the server, and the other nodes on the GPU, in an
undefined state. Without MPS the driver cleans up each process separately.
"""

import ctypes
import os
import sys
import threading

GRACE = 2.0  # seconds that the device may take; less than the parent waits before it kills (closeGrace in client.go)
NOWHERE = "/dev/null"  # the pipe directory of an engine without MPS (nowhere in node/mpsclient)


class Leaving(BaseException):
    """Raised in the main thread when the process is about to end. The thread must not give the device
    more work.
    """


def leave(wake=lambda: None):
    """Ends the process, from any thread, and does not return. wake() must end the main thread's wait for
    a request.
    """
    torch = sys.modules.get("torch")
    try:
        if os.environ.get("CUDA_MPS_PIPE_DIRECTORY", NOWHERE) != NOWHERE and _in_use(torch):
            limit = threading.Timer(GRACE, os._exit, (0,))
            limit.daemon = True
            limit.start()
            if threading.current_thread() is threading.main_thread():
                _settle(torch)
            else:
                # Only the main thread launches work and selects the device, so it must end the process.
                main = ctypes.c_ulong(threading.main_thread().ident)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(main, ctypes.py_object(Leaving))
                wake()
                limit.join()
    finally:
        os._exit(0)


def _in_use(torch):
    try:
        return torch.cuda.is_initialized()
    except AttributeError:  # torch is not imported, or is being imported
        return False


def _settle(torch):
    try:
        torch.cuda.synchronize()
    except Exception as error:  # noqa: BLE001 - a device that is lost has nothing outstanding
        print(f"engine: the device did not finish its work: {error}", file=sys.stderr, flush=True)
