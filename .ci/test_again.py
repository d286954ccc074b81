"""Which failed tests are repeated, and when none is."""

import pathlib
import subprocess
import sys

import pytest

AGAIN = pathlib.Path(__file__).with_name("again")
XML = '<testsuites><testsuite>{}</testsuite></testsuites>'
ROWS = '[{{"row": "tasks", "verdict": "equal"}}, {{"row": "loss", "verdict": "{}"}}]'
CASE = '<testcase classname="{}" name="a"><failure/></testcase>'


@pytest.mark.parametrize(
    "files, lines",
    [
        ({"plain.rc": "0", "plain.failed": "example.com/a\tTestX\n"}, []),
        ({"plain.rc": "1", "plain.failed": "example.com/a\tTestX\nexample.com/a\tTestY\n"}, ["go\texample.com/a\t^(TestX|TestY)$"]),
        ({"plain.rc": "1", "plain.failed": "example.com/a\t\n"}, ["go\texample.com/a\t.*"]),
        ({"plain.rc": "1", "plain.failed": "example.com/a\tdoes not compile\n"}, []),
        ({"plain.rc": "1", "plain.failed": "example.com/a\tTestX\n", "python.rc": "124"}, []),  # killed before it wrote any output
        ({"plain.rc": "1", "plain.failed": "".join(f"example.com/a\tTest{i}\n" for i in range(9))}, []),
        ({"check.rc": "1", "check.xml": XML.format(CASE.format("test_again"))}, ["python\ttest_again.py\t"]),
        ({"check.rc": "1", "check.xml": XML.format(CASE.format("elsewhere.test_other"))}, []),
        ({"peers.rc": "1", "peers.json": ROWS.format("failed")}, ["peers\tloss\t"]),
        ({"peers.rc": "1", "peers.json": ROWS.format("differs")}, []),
        ({"peers.rc": "124", "plain.rc": "1", "plain.failed": "example.com/a\tTestX\n"}, []),  # all rows together were too slow
    ],
)
def test_what_runs_once_more(tmp_path, files, lines):
    for name, text in files.items():
        tmp_path.joinpath(name).write_text(text)
    done = subprocess.run([sys.executable, AGAIN, tmp_path], cwd=AGAIN.parent, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines() == lines
