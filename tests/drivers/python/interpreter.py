"""Runs the scenarios with one of Python's drivers (scenarios.py says what is in the file, and what is printed).

Each driver is a class with the methods that `Program.do` calls.
"""

import datetime
import hashlib
import json
import sys
import uuid
from decimal import Decimal

LONGEST = 4096


def native(type, value):
    """The value that an application has."""
    if value is None:
        return None
    if type.endswith("[]"):
        return [native(type[:-2], item) for item in value]
    if isinstance(value, dict):
        value = value["repeat"] * value["times"]
    return NATIVE[type](value)


NATIVE = {"int4": int, "int8": int, "numeric": Decimal, "float4": float, "float8": float, "text": str, "bool": lambda it: it == "true",
          "date": datetime.date.fromisoformat, "timestamp": datetime.datetime.fromisoformat,
          "timestamptz": datetime.datetime.fromisoformat, "uuid": uuid.UUID, "bytea": bytes.fromhex}


def shown(value):
    """The name of a value's type, and its text."""
    if value is None:
        return None
    if isinstance(value, (list, tuple)):
        return ["list", [shown(item) for item in value]]
    return [type(value).__name__, short(text(value))]


def text(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, (datetime.date, datetime.datetime)):
        return value.isoformat()
    if isinstance(value, (bytes, memoryview, bytearray)):
        return bytes(value).hex()
    return repr(value) if isinstance(value, float) else str(value)


def short(value):
    if len(value) <= LONGEST:
        return value
    return "sha256:" + hashlib.sha256(value.encode()).hexdigest()


class Failed(Exception):
    """The driver gave an error: its SQLSTATE, or `client` if it came from the driver itself."""


def print_step(name, **result):
    print(json.dumps({"step": name, **result}), flush=True)


class Program:
    """The scenarios of the file, with a driver."""

    def __init__(self, driver):
        self.driver = driver
        self.config = json.load(open(sys.argv[-1]))

    def run(self):
        self.driver.connect(self.config)
        for scenario in self.config["scenarios"]:
            for step in scenario["steps"]:
                self.step(f"{scenario['name']}/{step['name']}", step)
        self.driver.close()

    def step(self, name, step):
        values = [native(*pair) for pair in zip(step["types"], step["values"])]
        batch = [[native(*pair) for pair in zip(step["types"], row)] for row in step["batch"]]
        try:
            rows, count = self.do(step, values, batch)
        except Failed as failed:
            print_step(name, error=failed.args[0], message=failed.args[1])
            return
        if step["rows"] is not None:
            oids = self.driver.oids() if step["do"] == "execute" else []
            print_step(name, rows=[[shown(value) for value in row] for row in rows], oids=oids)
        else:
            print_step(name, count=count)

    def do(self, step, values, batch):
        """The rows and the count of a step."""
        driver, what, sql = self.driver, step["do"], step["sql"]
        if what in ("begin", "commit", "rollback"):
            return None, getattr(driver, what)()
        if what in ("savepoint", "release", "back"):
            return None, getattr(driver, what)(sql)
        if what == "execute":
            return driver.execute(sql, values, step["rows"] is not None)
        if what == "many":
            return None, driver.many(sql, batch)
        if what in ("together", "again"):
            return getattr(driver, what)(sql, batch), None
        if what == "copy_in":
            return None, driver.copy_in(step, batch)
        if what == "copy_out":
            return [(driver.copy_out(sql),)], None
        if what == "cursor":
            return driver.cursor(sql, values), None
        return driver.cancel(sql, values), None
