"""The exception for all failures."""

# Exit codes of the program (docs/CLI.md).
DONE, FAILED, USAGE, NO_ROOM, LOST = 0, 1, 2, 3, 4


class SwarmError(Exception):
    """A failure in one line, with its remedy if there is one.

    code is the program's exit code, or that of the command it stands for: 1 failed, 2 invalid usage or configuration, 3
    not enough memory or GPU, 4 some nodes gave up, 130/143 stopped by a signal. remedy is the fix, "" if unknown.
    output is the program's stderr, "" if no program ran.
    """

    def __init__(self, message, code=FAILED, remedy="", output=""):
        super().__init__(message)
        self.message, self.code, self.remedy, self.output = message, code, remedy, output

    def __str__(self):
        if not self.remedy:
            return self.message
        return "{}. Try: {}".format(self.message.rstrip("."), self.remedy)


class NothingHere(SwarmError):
    """There is no database: no run has started under this home."""


def from_output(text, code, command):
    """Returns the SwarmError for a program's exit code and stderr: its last lines "Error:" and "Try:", with the
    indented lines between them.
    """
    message, remedy, listed = "", "", []
    within = False  # directly below an "Error:" line
    for line in text.splitlines():
        if line.startswith("Error: "):
            message, remedy, listed, within = line[len("Error: "):], "", [], True
        elif within and line.startswith("  "):
            listed.append(line.strip())
        else:
            within = False
            if line.startswith("Try: ") and message:
                remedy = line[len("Try: "):]
    if listed:
        message += " " + "; ".join(listed)
    if not message:
        lines = [line for line in text.splitlines() if line.strip()]
        message = "{} ended with exit code {}".format(command, code)
        if code < 0:
            message = "{} was ended by signal {}".format(command, -code)
        if lines:
            message += ": " + lines[-1].strip()
    return SwarmError(message, code, remedy, text)
