"""The program's errors as exceptions."""

from swarm_bridge.errors import from_output

LISTED = """a log line
Error: run e-1 cannot continue with another configuration:
  temperature 1 → 0.5
  nodes 8 → 4
Try: the original values
  not of the error
"""


def test_the_lines_below_an_error_are_part_of_it():
    error = from_output(LISTED, 2, "swarm up")
    assert error.message == "run e-1 cannot continue with another configuration: temperature 1 → 0.5; nodes 8 → 4"
    assert (error.remedy, error.code, error.output) == ("the original values", 2, LISTED)


def test_the_last_error_counts():
    assert from_output(LISTED + "Error: gone\n", 1, "swarm up").message == "gone"
