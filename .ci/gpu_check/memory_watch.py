"""A run's memory on the card, sampled from outside."""

import subprocess
import threading


class MemoryWatch:
    """Samples the card's memory in use with nvidia-smi five times per second. peak() is None without nvidia-smi."""

    def __init__(self):
        self.baseline = self._peak = None
        try:
            self._process = subprocess.Popen(
                ["nvidia-smi", "-i", "0", "--query-gpu=memory.used,utilization.gpu", "--format=csv,noheader,nounits", "-lms", "200"],
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            )
        except OSError:
            self._process = None
            return
        self._busy = []
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self):
        for line in self._process.stdout:
            parts = [part.strip() for part in line.split(",")]
            if parts[0].isdigit():
                used = int(parts[0]) << 20
                self.baseline = used if self.baseline is None else self.baseline
                self._peak = max(self._peak or 0, used)
            if len(parts) > 1 and parts[1].isdigit():
                self._busy.append(int(parts[1]) / 100)

    def stop(self):
        if self._process:
            self._process.terminate()
            self._process.wait()
            self._thread.join(5)

    def peak(self):
        """Bytes above the use before the run."""
        return None if self._peak is None else self._peak - self.baseline

    def utilization(self):
        return sum(self._busy) / len(self._busy) if self._process and self._busy else None
