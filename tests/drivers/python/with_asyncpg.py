"""asyncpg: parameters and results in binary, by the types that the server describes.

Usage: with_asyncpg.py CONFIG
"""

import asyncio
import io
import re

import asyncpg
from interpreter import Failed, Program


class Asyncpg:
    """Its coroutines, one after the other."""

    def connect(self, config):
        self.loop = asyncio.new_event_loop()
        self.described, self.transactions = [], []
        opening = asyncpg.connect(host=config["host"], port=config["port"], user="postgres", database="postgres")
        self.connection = self.loop.run_until_complete(opening)

    def close(self):
        self.run(self.connection.close())

    def oids(self):
        return self.described

    def run(self, coroutine):
        try:
            return self.loop.run_until_complete(coroutine)
        except (asyncpg.InterfaceError, asyncio.TimeoutError, OverflowError) as error:
            raise Failed("client", str(error)) from error
        except asyncpg.PostgresError as error:
            # A value that asyncpg does not encode has the class of all data errors.
            raise Failed("client" if error.sqlstate == "22000" else error.sqlstate, str(error)) from error

    def execute(self, sql, values, gives):
        if not gives:
            status = self.run(self.connection.execute(sql, *values))
            last = status.split()[-1]
            return None, int(last) if last.isdigit() else None
        return self.run(self.rows(sql, values)), None

    async def rows(self, sql, values):
        statement = await self.connection.prepare(sql)
        self.described = [attribute.type.oid for attribute in statement.get_attributes()]
        return [tuple(row) for row in await statement.fetch(*values)]

    def many(self, sql, batch):
        self.run(self.connection.executemany(sql, batch))
        return len(batch)

    def again(self, sql, batch):
        return [row for values in batch for row in self.execute(sql, values, True)[0]]

    def together(self, sql, batch):
        async def fetched():
            return await self.connection.fetchmany(sql, batch)
        return [tuple(row) for row in self.run(fetched())]

    def cursor(self, sql, values):
        async def fetched():
            async with self.connection.transaction():
                return [tuple(row) async for row in self.connection.cursor(sql, *values, prefetch=2)]
        return self.run(fetched())

    def begin(self):
        transaction = self.connection.transaction()
        self.run(transaction.start())
        self.transactions.append(transaction)

    def commit(self):
        self.run(self.transactions.pop().commit())

    def rollback(self):
        self.run(self.transactions.pop().rollback())

    def savepoint(self, _):
        self.begin()

    def release(self, _):
        self.commit()

    def back(self, _):
        self.rollback()

    def copy_in(self, step, batch):
        """Records in binary, for which asyncpg asks the types of the columns."""
        table, columns = re.match(r"COPY (\w+) \((.*)\) FROM", step["sql"]).groups()
        return int(self.run(self.connection.copy_records_to_table(table, records=batch, columns=columns.split(", "))).split()[-1])

    def copy_out(self, sql):
        out, query = io.BytesIO(), re.match(r"COPY \((.*)\) TO STDOUT", sql)[1]
        self.run(self.connection.copy_from_query(query, output=out))
        return out.getvalue().decode()

    def cancel(self, sql, values):
        """A call that takes too long is cancelled, and the error is Python's own."""
        return self.run(self.connection.fetch(sql, *values, timeout=0.3))


if __name__ == "__main__":
    Program(Asyncpg()).run()
