"""What every client of the suite does, a step a line on standard output: `step: what was seen`.

The rig plays the same steps under the Java controller and under klamm and compares the lines, so a line holds facts
only: no ids, times or texts of the client library. A step that fails says so and the rest goes on.
"""

import sys
import time

PARTITIONS = 4
GROWN = 6
REPLICAS = 3
RECORDS = 60
COMMITTED = 30
ABORTED = 10
PATIENCE_SECONDS = 40
PACE_SECONDS = 0.1


class Arguments:
    def __init__(self):
        bootstrap, self.topic, self.group = sys.argv[1:]
        self.bootstrap = bootstrap.split(",")


def say(step, fact):
    print(f"{step}: {fact}", flush=True)


def failed(step, error):
    say(step, f"FAILED {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")


def tell(step, act):
    try:
        say(step, act())
    except Exception as error:
        failed(step, error)


async def tell_async(step, act):
    try:
        say(step, await act())
    except Exception as error:
        failed(step, error)


def patience():
    """Yields until the patience is over; a waiting client is allowed to be told late, not never."""
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        yield
        time.sleep(PACE_SECONDS)
    raise TimeoutError(f"nothing came of it in {PATIENCE_SECONDS} s")
