"""The one loop by which tests wait for what other processes do in their own time.

Invariant: a wait ends. It fails after `seconds`, or when `process` has ended before the condition is true.
"""

import time

TIME_LIMIT = 180
# Short beside what servers take to do anything; one look often is a whole psql.
INTERVAL = 0.05


def eventually(condition, message="the condition does not come true", *, process=None, seconds=TIME_LIMIT):
    """Waits until `condition()` is true, and returns its value.

    `message` is what a failure says: a text, or a function that makes it at that moment (a server's log)."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        ended = process is not None and process.poll() is not None
        if ended or time.monotonic() > deadline:
            reason = f"ended with {process.returncode}" if ended else f"not within {seconds} s"
            raise AssertionError(f"{reason}: {message() if callable(message) else message}")
        time.sleep(INTERVAL)
    return value
