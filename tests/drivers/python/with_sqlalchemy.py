"""SQLAlchemy, Core and ORM: tables are declared with plain types, and each step is written as an application would.

Usage: with_sqlalchemy.py psycopg|asyncpg CONFIG
"""

import asyncio
import sys
from datetime import date, datetime
from decimal import Decimal

import sqlalchemy as sa
from interpreter import Failed, Program
from sqlalchemy.dialects import postgresql as pg
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column


class Base(DeclarativeBase):
    """Of all tables."""


class Person(Base):
    __tablename__ = "person"
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    name: Mapped[str | None] = mapped_column(sa.String(80))
    age: Mapped[int | None]
    paid: Mapped[Decimal | None]
    born: Mapped[date | None]
    note: Mapped[str | None]

    def row(self):
        return (self.id, self.name, self.age, self.paid, self.born, self.note)


class Pet(Base):
    __tablename__ = "pet"
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    owner: Mapped[str | None] = mapped_column(sa.Text)
    nick: Mapped[str]
    big: Mapped[int | None] = mapped_column(sa.BigInteger)


class Sample(Base):
    __tablename__ = "sample"
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    i: Mapped[int]
    l: Mapped[int] = mapped_column(sa.BigInteger)  # noqa: E741
    n: Mapped[Decimal] = mapped_column(sa.Numeric)
    f: Mapped[float] = mapped_column(sa.REAL)
    g: Mapped[float] = mapped_column(sa.Double)
    t: Mapped[str] = mapped_column(sa.Text)
    b: Mapped[bool]
    d: Mapped[date]
    s: Mapped[datetime]
    z: Mapped[datetime] = mapped_column(sa.DateTime(timezone=True))
    u: Mapped[sa.Uuid] = mapped_column(sa.Uuid)
    y: Mapped[bytes]


class Lists(Base):
    __tablename__ = "lists"
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    t: Mapped[list[str] | None] = mapped_column(pg.ARRAY(sa.Text))
    i: Mapped[list[int] | None] = mapped_column(pg.ARRAY(sa.Integer))


class Blob(Base):
    __tablename__ = "blob"
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    t: Mapped[str]
    y: Mapped[bytes]


FIELDS = ("id", "name", "age", "paid", "born", "note")
PETS = ("id", "owner", "nick", "big")


def named(fields, values):
    return dict(zip(fields, values))


def add(session, objects):
    session.add_all(objects)
    session.flush()
    return None, len(objects)


def rows(session, statement):
    return [tuple(row) for row in session.execute(statement)], None


def count(session, statement):
    return None, session.execute(statement).rowcount


def ids(condition):
    return lambda session, v: rows(session, sa.select(Person.id).where(condition(*v)).order_by(Person.id))


def created(session, v):
    """The person of this name, as a look-up by the primary key of another session would not see it."""
    found = session.scalars(sa.select(Person).filter_by(name=v[0])).one_or_none() or Person(id=50, name=v[0])
    session.add(found)
    return [(found.id, found.name)], None


def fetched(session, v):
    statement = sa.select(Person.id, Person.name).where(Person.name > v[0]).order_by(Person.id)
    return [tuple(row) for row in session.execute(statement.execution_options(yield_per=2))], None


def computed(session, v):
    changed = sa.update(Person).where(Person.id == v[1]).values(age=Person.age + v[0]).returning(Person.age, Person.name)
    return rows(session, changed)


def put_back(session, v):
    """The unit of work finds what has changed."""
    ada = session.get(Person, v[2])
    ada.name, ada.age = v[0], v[1]
    session.flush()
    return None, 1


def by_hand(session, v, sql):
    return rows(session, sa.text(sql))


def joined(session, v):
    pairs = sa.select(Person.id, Person.name, Pet.nick, Pet.big).join(Pet, Pet.owner == Person.name)
    return rows(session, pairs.where(Pet.nick != v[0]).order_by(Person.id, Pet.id))


def left_joined(session, v):
    pairs = sa.select(Person.id, Pet.nick).join(Pet, Pet.owner == Person.name, isouter=True)
    return rows(session, pairs.where(Person.id < v[0]).order_by(Person.id, Pet.id))


def union(session, v):
    left, right = sa.select(Person.name).where(Person.id == v[0]), sa.select(Pet.nick).where(Pet.id == v[1])
    return rows(session, left.union_all(right))


def upsert(session, v, **what):
    statement = pg.insert(Person).values(**named(FIELDS, v))
    changed = statement.on_conflict_do_update(index_elements=[Person.id], set_={"name": statement.excluded.name})
    return rows(session, changed.returning(Person.name, Person.age))


def having(session, v):
    groups = sa.select(Pet.owner, sa.func.count()).group_by(Pet.owner)
    return rows(session, groups.having(sa.func.count() > v[0]))


def grouped(session, v):
    groups = sa.select(Person.note, sa.func.max(Person.age)).where(Person.note != v[0]).group_by(Person.note)
    return rows(session, groups.order_by(Person.note))


def aggregates(session, v):
    func = sa.func
    return rows(session, sa.select(func.count(), func.count(Person.name), func.sum(Person.age), func.min(Person.name),
                                   func.max(Person.born)).where(Person.id <= v[0]))


def changed_by_case(session, v):
    age = sa.case({3: v[0], 4: v[1]}, value=Person.id)
    return count(session, sa.update(Person).where(Person.id.in_([3, 4])).values(age=age).execution_options(synchronize_session=False))


def add_of(kind, fields):
    return lambda session, v: add(session, [kind(**named(fields, v))])


def each(session, batch, one):
    return [row for values in batch for row in one(session, values)[0]], None


def by_name(session, v):
    return rows(session, sa.select(Person.name, Person.age).where(Person.name == v[0]))


def update_many(session, batch):
    """executemany of Core."""
    table = Pet.__table__
    statement = sa.update(table).where(table.c.nick == sa.bindparam("before")).values(nick=sa.bindparam("after"))
    done = session.connection().execute(statement, [{"after": after, "before": before} for after, before in batch])
    return None, done.rowcount


SAMPLE = [column.key for column in Sample.__table__.columns]
EXISTS = sa.select(1).select_from(Pet).where(Pet.owner == Person.name)
SQL = {
    "insert/one": add_of(Person, FIELDS),
    "insert/returning": lambda s, v: rows(s, sa.insert(Person).values(**named(FIELDS, v)).returning(Person.id, Person.name, Person.paid)),
    "insert/many": lambda s, b: add(s, [Person(**named(FIELDS, v)) for v in b]),
    "insert/rows": lambda s, v: count(s, sa.insert(Person).values([named(FIELDS, v[:6]), named(FIELDS, v[6:])])),
    "insert/pets": lambda s, b: add(s, [Pet(**named(PETS, v)) for v in b]),
    "read/all": lambda s, v: ([person.row() for person in s.scalars(sa.select(Person).order_by(Person.id))], None),
    "read/equal": lambda s, v: rows(s, sa.select(Person.id, Person.name, Person.age).filter_by(name=v[0], note=v[1])),
    "read/equal quoted": lambda s, v: rows(s, sa.select(Person.id, Person.name).where(Person.name == v[0])),
    "read/equal number": ids(lambda age, id: sa.and_(Person.age == age, Person.id > id)),
    "read/equal numeric": ids(lambda paid: Person.paid == paid),
    "read/equal date": ids(lambda born: Person.born == born),
    "read/in": ids(lambda *names: Person.name.in_(names)),
    "read/any": ids(lambda names: Person.name == sa.any_(sa.cast(names, pg.ARRAY(sa.String)))),
    "read/any number": ids(lambda ages: Person.age == sa.any_(sa.literal(ages, pg.ARRAY(sa.Integer)))),
    "read/between": ids(lambda low, high: Person.born.between(low, high)),
    "read/less": ids(lambda age, paid: sa.and_(Person.age < age, Person.paid >= paid)),
    "read/like": ids(lambda pattern: Person.name.like(pattern)),
    "read/like escaped": ids(lambda pattern: Person.name.like(pattern)),
    "read/starts with": ids(lambda start: Person.name.startswith(start, autoescape=True)),
    "read/contains": ids(lambda _: Person.name.contains('Hara "q" \\ %', autoescape=True)),
    "read/ends with": ids(lambda _: Person.name.endswith("_", autoescape=True)),
    "read/not like": ids(lambda pattern, id: sa.and_(Person.name.not_like(pattern), Person.id < id)),
    "read/ilike": ids(lambda pattern: Person.name.ilike(pattern)),
    "read/function": ids(lambda name: sa.func.lower(Person.name) == name),
    "read/exists": ids(lambda nick: EXISTS.where(Pet.nick == nick).exists()),
    "read/nothing": lambda s, v: rows(s, sa.select(Person.id, Person.name).where(Person.name == v[0])),
    "combine/join": joined,
    "combine/left join": left_joined,
    "combine/aggregates": aggregates,
    "combine/sum of numeric": lambda s, v: rows(s, sa.select(sa.func.sum(Person.paid)).where(Person.paid > v[0])),
    "combine/group": having,
    "combine/group by plain": grouped,
    "combine/order": lambda s, v: rows(s, sa.select(Person.name).order_by(Person.name.desc()).limit(v[0]).offset(v[1])),
    "combine/order by number": lambda s, v: rows(s, sa.select(Person.id).order_by(Person.age, Person.id).limit(3)),
    "combine/distinct": lambda s, v: rows(s, sa.select(Pet.owner).distinct().where(Pet.owner.is_not(None)).order_by(Pet.owner)),
    "combine/union": union,
    "combine/cursor": fetched,
    "combine/together": lambda s, b: each(s, b, by_name),
    "change/update": lambda s, v: count(s, sa.update(Person).where(Person.name == v[2]).values(name=v[0], note=v[1])),
    "change/computed": computed,
    "change/put back": put_back,
    "change/locked": lambda s, v: rows(s, sa.select(Person.id, Person.name).where(Person.name == v[0]).with_for_update()),
    "change/created": created,
    "change/case": changed_by_case,
    "change/conflict": upsert,
    "change/conflict ignored": lambda s, v: count(s, pg.insert(Person).values(id=v[0], name=v[1]).on_conflict_do_nothing()),
    "change/update many": update_many,
    "change/delete": lambda s, v: rows(s, sa.delete(Pet).where(Pet.nick == v[0]).returning(Pet.id, Pet.owner)),
    "nulls/insert": add_of(Person, FIELDS),
    "nulls/is null": lambda s, v: ([person.row() for person in s.scalars(sa.select(Person).where(Person.name.is_(None)))], None),
    "nulls/coalesce": lambda s, v: rows(s, sa.select(sa.func.coalesce(Person.name, v[0])).where(Person.id == v[1])),
    "nulls/to null": lambda s, v: rows(s, sa.update(Person).where(Person.id == v[1]).values(paid=None, note=v[0]).returning(Person.paid)),
    "nulls/count": lambda s, v: rows(s, sa.select(sa.func.count(), sa.func.count(Person.paid), sa.func.count(Person.name))
                                     .select_from(Person)),
    "nulls/delete": lambda s, v: count(s, sa.delete(Person).where(Person.name.is_(None))),
    "types/insert": lambda s, b: add(s, [Sample(**named(SAMPLE, v)) for v in b]),
    "types/select": lambda s, v: rows(s, sa.select(Sample.__table__).order_by(Sample.id)),
    "types/insert lists": lambda s, b: add(s, [Lists(id=v[0], t=v[1], i=v[2]) for v in b]),
    "types/select lists": lambda s, v: rows(s, sa.select(Lists.__table__).order_by(Lists.id)),
    "types/element": lambda s, v: rows(s, sa.select(Lists.id, Lists.t[1]).where(v[0] == sa.any_(Lists.t))),
    "ranges/too large": lambda s, v: count(s, sa.update(Person).where(Person.id == v[1]).values(age=v[0])),
    "ranges/overflow": lambda s, v: count(s, sa.update(Person).where(Person.id == v[1]).values(age=Person.age + v[0])),
    "ranges/unchanged": lambda s, v: rows(s, sa.select(Person.age).where(Person.id == v[0])),
    "transactions/clean": lambda s, v: count(s, sa.delete(Person).where(Person.id > v[0])),
    "errors/no such column": lambda s, v: rows(s, sa.select(sa.column("nothing")).select_from(Person).where(Person.name == v[0])),
    "errors/failed": lambda s, v: rows(s, sa.select(1).where(Person.name == v[0])),
    "prepared/select": lambda s, b: each(s, b, lambda s, v: rows(s, sa.select(Person.id, Person.name, Person.age)
                                                                 .where(Person.name == v[0], Person.id < v[1]))),
    "prepared/update": lambda s, b: each(s, b, lambda s, v: rows(s, sa.update(Person).where(Person.name == v[1]).values(age=v[0])
                                                                 .returning(Person.age))),
    "large/insert": lambda s, v: add(s, [Blob(id=v[0], t=v[1], y=v[2])]),
    "large/select": lambda s, v: rows(s, sa.select(Blob.__table__).where(Blob.id == v[0])),
    "cancelled/timeout": lambda s, v: rows(s, sa.select(Person.id, sa.func.pg_sleep(30)).where(Person.name == v[0])),
}
SQL |= {f"types/equal {name}": lambda s, v, name=name: rows(s, sa.select(Sample.id).where(getattr(Sample, name) == v[0], Sample.id == v[1]))
        for name in SAMPLE[1:]}


def seen(session, v):
    return rows(session, sa.select(Person.id, Person.name).where(Person.name.like(v[0])).order_by(Person.id))


def goes_on(session, v):
    return rows(session, sa.select(Person.id).where(Person.name == v[0]))


def refused(session, v):
    return rows(session, sa.select(Person.id).where(Person.name == sa.func.textcat(*v)))


KINDS = {"tables": lambda s, v, sql: count(s, sa.text(sql)), "prepared/new column": lambda s, v, sql: count(s, sa.text(sql)),
         "cancelled/set": lambda s, v, sql: count(s, sa.text(sql)), "cancelled/reset": lambda s, v, sql: count(s, sa.text(sql))}


class Sqlalchemy:
    """One connection; outside of a transaction of the scenario's each step is one."""

    def __init__(self, driver):
        self.driver = driver

    def connect(self, config):
        self.outer = self.session = None
        self.savepoints = []
        url = sa.URL.create(f"postgresql+{self.driver}", "postgres", host=None, database="postgres",
                            query={"host": config["host"], "port": str(config["port"])})
        self.loop = None
        if self.driver == "asyncpg":
            self.loop = asyncio.new_event_loop()
            self.engine = create_async_engine(url)
            self.connection = self.loop.run_until_complete(self.engine.connect())
        else:
            self.engine = sa.create_engine(url)
            self.connection = self.engine.connect()

    def call(self, function, *arguments):
        """Runs a function of the synchronous connection."""
        if self.loop is None:
            return function(self.connection, *arguments)
        return self.loop.run_until_complete(self.connection.run_sync(function, *arguments))

    def close(self):
        if self.loop is None:
            self.connection.close()
        else:
            self.loop.run_until_complete(self.connection.close())
            self.loop.run_until_complete(self.engine.dispose())

    def step(self, function, *arguments):
        try:
            return self.call(self.in_session, function, *arguments)
        except sa.exc.DBAPIError as error:
            state = getattr(error.orig, "sqlstate", None)
            # A value that asyncpg does not encode has the class of all data errors.
            raise Failed("client" if state in (None, "22000") else state, str(error.orig)) from error
        except sa.exc.InvalidRequestError as error:  # the session knows that its transaction has failed
            raise Failed("client", str(error)) from error

    def in_session(self, connection, function, *arguments):
        if self.session is not None:
            return function(self.session, *arguments)
        with Session(connection) as session, session.begin():
            return function(session, *arguments)

    def begin(self):
        def begin(connection):
            self.session = Session(connection)
            self.outer = self.session.begin()
        self.call(begin)

    def end(self, how):
        session, self.session, self.savepoints = self.session, None, []
        self.call(lambda _: (getattr(session, how)(), session.close()))

    def commit(self):
        self.end("commit")

    def rollback(self):
        self.end("rollback")

    def savepoint(self, _):
        self.call(lambda _: self.savepoints.append(self.session.begin_nested()))

    def release(self, _):
        self.call(lambda _: self.savepoints.pop().commit())

    def back(self, _):
        self.call(lambda _: self.savepoints.pop().rollback())


class Orm(Program):
    """The steps by their names."""

    def do(self, step, values, batch):
        driver = self.driver
        if step["do"] in ("begin", "commit", "rollback"):
            return None, getattr(driver, step["do"])()
        if step["do"] in ("savepoint", "release", "back"):
            return None, getattr(driver, step["do"])(step["sql"])
        return driver.step(*self.function(step, values, batch))

    def function(self, step, values, batch):
        name = self.name
        if function := SQL.get(name):
            return function, batch or values
        scenario, _, what = name.partition("/")
        if kind := KINDS.get(scenario) or KINDS.get(name):
            return kind, values, step["sql"]
        if scenario == "transactions" and step["gives"]:
            return seen, values
        if scenario == "transactions" or what.startswith("unique"):
            return add_of(Person, ("id", "name")), values
        if what.startswith("refused"):
            return refused, values
        if scenario in ("errors", "cancelled"):
            return goes_on, values
        raise KeyError(name)

    def step(self, name, step):
        self.name = name
        if name in ABSENT:
            return
        super().step(name, step)


ABSENT = {"prepared/with it", "cancelled/cancel"}

if __name__ == "__main__":
    driver = Sqlalchemy(sys.argv[1])
    driver.oids = lambda: []
    Orm(driver).run()
