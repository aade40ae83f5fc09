"""psycopg2, psycopg 3 and pg8000: what PEP 249 has, and what each adds.

Usage: with_dbapi.py psycopg2|psycopg|psycopg-binary|psycopg-client|pg8000 CONFIG
"""

import contextlib
import io
import re
import sys
import threading

from interpreter import Failed, Program


def with_percent(sql):
    """The statement in the paramstyle `format`."""
    return re.sub(r"\$\d+", "%s", sql.replace("%", "%%"))


class DbApi:
    """What the three have in common."""

    errors = Exception

    def connect(self, config):
        self.connection = self.opened(config)
        self.connection.autocommit = True
        self.described = None

    def close(self):
        self.connection.close()

    def oids(self):
        """The types of the last rows, as the driver was told."""
        return [column[1] for column in self.described or ()]

    @contextlib.contextmanager
    def failing(self):
        try:
            yield
        except self.errors as error:
            raise Failed(self.sqlstate(error) or "client", str(error)) from error

    def sqlstate(self, error):
        return error.sqlstate

    def new_cursor(self):
        return self.connection.cursor()

    def execute(self, sql, values, gives):
        with self.failing(), contextlib.closing(self.new_cursor()) as cursor:
            cursor.execute(with_percent(sql) if values else sql, *([values] if values else []))
            self.described = cursor.description
            return (cursor.fetchall() if gives else None), cursor.rowcount

    def many(self, sql, batch):
        with self.failing(), contextlib.closing(self.new_cursor()) as cursor:
            cursor.executemany(with_percent(sql), batch)
            return cursor.rowcount

    def again(self, sql, batch):
        return [row for values in batch for row in self.execute(sql, values, True)[0]]

    together = again

    def cursor(self, sql, values):
        with self.failing():
            self.begin()
            rows = list(self.fetched(with_percent(sql), values))
            self.commit()
            return rows

    def begin(self):
        self.connection.autocommit = False

    def commit(self):
        with self.failing():
            self.connection.commit()
        self.connection.autocommit = True

    def rollback(self):
        with self.failing():
            self.connection.rollback()
        self.connection.autocommit = True

    def savepoint(self, name):
        self.execute(f"SAVEPOINT {name}", [], False)

    def release(self, name):
        self.execute(f"RELEASE SAVEPOINT {name}", [], False)

    def back(self, name):
        self.execute(f"ROLLBACK TO SAVEPOINT {name}", [], False)

    def cancel(self, sql, values):
        timer = threading.Timer(0.3, self.cancels)
        timer.start()
        try:
            return self.execute(sql, values, True)[0]
        finally:
            timer.join()


class Psycopg2(DbApi):
    """Statements with literals in them."""

    def opened(self, config):
        import psycopg2.extras
        self.errors = psycopg2.Error
        psycopg2.extras.register_uuid()
        return psycopg2.connect(host=config["host"], port=config["port"], user="postgres", dbname="postgres")

    def sqlstate(self, error):
        return error.pgcode

    def many(self, sql, batch):
        import psycopg2.extras
        with self.failing(), self.connection.cursor() as cursor:
            if sql.startswith("INSERT"):
                rows = re.sub(r"VALUES \(.*\)", "VALUES %s", sql)
                psycopg2.extras.execute_values(cursor, rows, batch)
                return cursor.rowcount
            psycopg2.extras.execute_batch(cursor, with_percent(sql), batch)
            return len(batch)

    def fetched(self, sql, values):
        with self.connection.cursor("named") as cursor:
            cursor.itersize = 2
            cursor.execute(sql, values)
            yield from cursor

    def again(self, sql, batch):
        """PREPARE and EXECUTE, which psycopg2 leaves to the application."""
        self.prepared = getattr(self, "prepared", 0) + 1
        self.execute(f"PREPARE again{self.prepared} AS {sql}", [], False)
        marks = ", ".join(f"${at}" for at in range(len(batch[0])))
        return [row for values in batch for row in self.execute(f"EXECUTE again{self.prepared} ({marks})", values, True)[0]]

    def copy_in(self, step, _):
        with self.failing(), self.connection.cursor() as cursor:
            cursor.copy_expert(step["sql"], io.StringIO(step["text"]))
            return cursor.rowcount

    def copy_out(self, sql):
        out = io.StringIO()
        with self.failing(), self.connection.cursor() as cursor:
            cursor.copy_expert(sql, out)
        return out.getvalue()

    def cancels(self):
        self.connection.cancel()


class Psycopg3(DbApi):
    """Parameters. `form` chooses results in binary, or statements with literals."""

    def __init__(self, form=""):
        self.form = form

    def opened(self, config):
        import psycopg
        self.errors = psycopg.Error
        kind = {"cursor_factory": psycopg.ClientCursor} if self.form == "client" else {}
        return psycopg.connect(host=config["host"], port=config["port"], user="postgres", dbname="postgres", autocommit=True, **kind)

    def new_cursor(self):
        return self.connection.cursor(binary=self.form == "binary")

    def fetched(self, sql, values):
        with self.connection.cursor("named", binary=self.form == "binary") as cursor:
            cursor.itersize = 2
            cursor.execute(sql, values)
            yield from cursor

    def together(self, sql, batch):
        """A pipeline; with literals there is none."""
        if self.form == "client":
            return self.again(sql, batch)
        with self.failing(), self.connection.pipeline():
            cursors = [self.new_cursor().execute(with_percent(sql), values) for values in batch]
            return [row for cursor in cursors for row in cursor.fetchall()]

    def copy_in(self, step, batch):
        """Rows in text, or in binary with the types of the columns."""
        is_binary = self.form == "binary"
        with self.failing(), self.connection.cursor() as cursor:
            with cursor.copy(step["sql"] + (" (FORMAT binary)" if is_binary else "")) as copy:
                if is_binary:
                    copy.set_types(step["types"])
                for row in batch:
                    copy.write_row(row)
            return cursor.rowcount

    def copy_out(self, sql):
        with self.failing(), self.connection.cursor() as cursor, cursor.copy(sql) as copy:
            return b"".join(copy).decode()

    def cancels(self):
        self.connection.cancel_safe()


class Pg8000(DbApi):
    """Parameters of no declared type, in text."""

    def opened(self, config):
        import pg8000.dbapi
        self.errors = pg8000.dbapi.Error
        return pg8000.dbapi.connect(user="postgres", database="postgres", unix_sock=f"{config['host']}/.s.PGSQL.{config['port']}")

    def sqlstate(self, error):
        return error.args[0].get("C") if isinstance(error.args[0], dict) else None

    def fetched(self, sql, values):
        """pg8000 has no cursors of the server's."""
        cursor = self.connection.cursor()
        cursor.execute("DECLARE named CURSOR FOR " + sql, values)
        while True:
            cursor.execute("FETCH 2 FROM named")
            rows = cursor.fetchall()
            yield from rows
            if not rows:
                return

    def copy_in(self, step, _):
        with self.failing(), contextlib.closing(self.new_cursor()) as cursor:
            cursor.execute(step["sql"], stream=io.BytesIO(step["text"].encode()))
            return cursor.rowcount

    def copy_out(self, sql):
        out = io.BytesIO()
        with self.failing(), contextlib.closing(self.new_cursor()) as cursor:
            cursor.execute(sql, stream=out)
        return out.getvalue().decode()

    def cancel(self, sql, values):
        """pg8000 cannot cancel."""
        self.execute("SET statement_timeout = '300ms'", [], False)
        try:
            return self.execute(sql, values, True)[0]
        finally:
            self.execute("RESET statement_timeout", [], False)


DRIVERS = {"psycopg2": Psycopg2, "psycopg": Psycopg3, "psycopg-binary": lambda: Psycopg3("binary"),
           "psycopg-client": lambda: Psycopg3("client"), "pg8000": Pg8000}

if __name__ == "__main__":
    Program(DRIVERS[sys.argv[1]]()).run()
