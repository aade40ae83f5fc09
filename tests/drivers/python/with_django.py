"""Django's ORM: models with plain fields, and each step is written as an application would.

Usage: with_django.py CONFIG
"""

import json
import sys

import types

import django
from django.apps import AppConfig
from django.conf import settings
from interpreter import Failed, Program

CONFIG = json.load(open(sys.argv[-1]))
APP = types.ModuleType("drivers")
APP.__file__ = __file__
settings.configure(USE_TZ=True, TIME_ZONE="America/St_Johns", DATABASES={"default": {
    "ENGINE": "django.db.backends.postgresql", "NAME": "postgres", "USER": "postgres", "HOST": CONFIG["host"],
    "PORT": str(CONFIG["port"])}}, INSTALLED_APPS=["django.contrib.postgres", AppConfig("drivers", APP)],
    DEFAULT_AUTO_FIELD="django.db.models.AutoField")
django.setup()

from django.contrib.postgres.fields import ArrayField  # noqa: E402
from django.db import DatabaseError, connection, models, transaction  # noqa: E402
from django.db.models import Case, Count, Exists, F, Max, Min, OuterRef, Q, Sum, Value, When  # noqa: E402
from django.db.models.functions import Coalesce, Lower  # noqa: E402


class Person(models.Model):
    """Its table is made by hand."""
    id = models.IntegerField(primary_key=True)
    name = models.CharField(max_length=80, null=True, unique=True)
    age = models.IntegerField(null=True)
    paid = models.DecimalField(max_digits=60, decimal_places=30, null=True)
    born = models.DateField(null=True)
    note = models.TextField(null=True)

    class Meta:
        app_label, db_table, managed = "drivers", "person", False


class Pet(models.Model):
    """Its owner is a person's name."""
    id = models.IntegerField(primary_key=True)
    owner = models.ForeignKey(Person, models.DO_NOTHING, to_field="name", db_column="owner", null=True, db_constraint=False)
    nick = models.TextField()
    big = models.BigIntegerField(null=True)

    class Meta:
        app_label, db_table, managed = "drivers", "pet", False


class Naive(models.Field):
    """A timestamp without a time zone, which Django does not have."""

    def db_type(self, connection):
        return "timestamp"


class Sample(models.Model):
    """Every type."""
    id = models.IntegerField(primary_key=True)
    i = models.IntegerField()
    l = models.BigIntegerField()  # noqa: E741
    n = models.DecimalField(max_digits=200, decimal_places=100)
    f = models.FloatField()
    g = models.FloatField()
    t = models.TextField()
    b = models.BooleanField()
    d = models.DateField()
    s = Naive()
    z = models.DateTimeField()
    u = models.UUIDField()
    y = models.BinaryField()

    class Meta:
        app_label, db_table, managed = "drivers", "sample", False


class Lists(models.Model):
    """Arrays."""
    id = models.IntegerField(primary_key=True)
    t = ArrayField(models.TextField(null=True), null=True)
    i = ArrayField(models.IntegerField(null=True), null=True)

    class Meta:
        app_label, db_table, managed = "drivers", "lists", False


class Blob(models.Model):
    """Large values."""
    id = models.IntegerField(primary_key=True)
    t = models.TextField()
    y = models.BinaryField()

    class Meta:
        app_label, db_table, managed = "drivers", "blob", False


FIELDS = ("id", "name", "age", "paid", "born", "note")
PETS = ("id", "owner_id", "nick", "big")
people, pets = Person.objects, Pet.objects


def named(fields, values):
    return dict(zip(fields, values))


def rows(query, *fields):
    return list(query.values_list(*fields)), None


def ids(condition):
    return lambda v: rows(people.filter(condition(*v)).order_by("id"), "id")


def insert(v):
    people.create(**named(FIELDS, v))
    return None, 1


def bulk(kind, fields):
    return lambda batch: (None, len(kind.objects.bulk_create([kind(**named(fields, v)) for v in batch])))


def returned(v):
    """Django has no RETURNING of what it knows."""
    made = people.create(**named(FIELDS, v))
    return [(made.id, made.name, made.paid)], None


def computed(v):
    people.filter(id=v[1]).update(age=F("age") + v[0])
    return rows(people.filter(id=v[1]), "age", "name")


def put_back(v):
    ada = people.get(pk=v[2])
    ada.name, ada.age = v[0], v[1]
    ada.save()
    return None, 1


def created(v):
    found, _ = people.get_or_create(name=v[0], defaults={"id": 50})
    return [(found.id, found.name)], None


def by_case(v):
    return None, people.filter(id__in=[3, 4]).update(age=Case(When(id=3, then=Value(v[0])), When(id=4, then=Value(v[1]))))


def upsert(v):
    people.bulk_create([Person(**named(FIELDS, v))], update_conflicts=True, unique_fields=["id"], update_fields=["name"])
    return rows(people.filter(id=v[0]), "name", "age")


def ignored(v):
    before = people.count()
    people.bulk_create([Person(**named(FIELDS, v))], ignore_conflicts=True)
    return None, people.count() - before


def update_many(batch):
    changed = list(pets.filter(nick__in=[before for _, before in batch]))
    for pet in changed:
        pet.nick = dict((before, after) for after, before in batch)[pet.nick]
    return None, pets.bulk_update(changed, ["nick"])


def deleted(v):
    found = rows(pets.filter(nick=v[0]), "id", "owner_id")
    pets.filter(nick=v[0]).delete()
    return found


def to_null(v):
    people.filter(id=v[1]).update(paid=None, note=v[0])
    return rows(people.filter(id=v[1]), "paid")


def aggregates(v):
    found = people.filter(id__lte=v[0]).aggregate(a=Count("*"), b=Count("name"), c=Sum("age"), d=Min("name"), e=Max("born"))
    return [tuple(found.values())], None


def left_joined(v):
    return rows(people.filter(id__lt=v[0]).order_by("id", "pet__id"), "id", "pet__nick")


def fetched(v):
    with transaction.atomic():
        return list(people.filter(name__gt=v[0]).order_by("id").values_list("id", "name").iterator(chunk_size=2)), None


def locked(v):
    return rows(people.select_for_update().filter(name=v[0]), "id", "name")


def union(v):
    return rows(people.filter(id=v[0]).values_list("name").union(pets.filter(id=v[1]).values_list("nick"), all=True), "name")


def set_age(v):
    people.filter(name=v[1]).update(age=v[0])
    return rows(people.filter(name=v[1]), "age")


def each(one):
    return lambda batch: ([row for v in batch for row in one(v)[0]], None)


def by_hand(v, sql):
    with connection.cursor() as cursor:
        cursor.execute(sql)
    return None, None


class Joined(models.Func):
    function = "textcat"
    output_field = models.TextField()


class Sleep(models.Func):
    function = "pg_sleep"
    output_field = models.TextField()


SAMPLE = [field.name for field in Sample._meta.fields]
STEPS = {
    "insert/one": insert,
    "insert/returning": returned,
    "insert/many": bulk(Person, FIELDS),
    "insert/rows": lambda v: bulk(Person, FIELDS)([v[:6], v[6:]]),
    "insert/pets": bulk(Pet, PETS),
    "read/all": lambda v: ([tuple(getattr(person, field) for field in FIELDS) for person in people.order_by("id")], None),
    "read/equal": lambda v: rows(people.filter(name=v[0], note=v[1]), "id", "name", "age"),
    "read/equal quoted": lambda v: rows(people.filter(name=v[0]), "id", "name"),
    "read/equal number": ids(lambda age, id: Q(age=age, id__gt=id)),
    "read/equal numeric": ids(lambda paid: Q(paid=paid)),
    "read/equal date": ids(lambda born: Q(born=born)),
    "read/in": ids(lambda *names: Q(name__in=names)),
    "read/any": ids(lambda names: Q(name__in=names)),
    "read/any number": ids(lambda ages: Q(age__in=ages)),
    "read/between": ids(lambda low, high: Q(born__range=(low, high))),
    "read/less": ids(lambda age, paid: Q(age__lt=age, paid__gte=paid)),
    "read/like": ids(lambda pattern: Q(name__startswith=pattern[:-1])),
    "read/like escaped": ids(lambda pattern: Q(name__startswith=pattern.split("%")[0], name__endswith="_")),
    "read/starts with": ids(lambda start: Q(name__startswith=start)),
    "read/contains": ids(lambda _: Q(name__contains='Hara "q" \\ %')),
    "read/ends with": ids(lambda _: Q(name__endswith="_")),
    "read/not like": ids(lambda pattern, id: ~Q(name__startswith=pattern[:-1]) & Q(id__lt=id)),
    "read/ilike": ids(lambda pattern: Q(name__istartswith=pattern[:-1])),
    "read/function": lambda v: rows(people.annotate(low=Lower("name")).filter(low=v[0]), "id"),
    "read/exists": lambda v: rows(people.filter(Exists(pets.filter(owner=OuterRef("name"), nick=v[0]))), "id"),
    "read/nothing": lambda v: rows(people.filter(name=v[0]), "id", "name"),
    "combine/join": lambda v: rows(pets.exclude(nick=v[0]).filter(owner__id__gt=0).order_by("owner__id", "id"),
                                   "owner__id", "owner__name", "nick", "big"),
    "combine/left join": left_joined,
    "combine/aggregates": aggregates,
    "combine/sum of numeric": lambda v: ([tuple(people.filter(paid__gt=v[0]).aggregate(s=Sum("paid")).values())], None),
    "combine/group": lambda v: rows(pets.values("owner").annotate(n=Count("*")).filter(n__gt=v[0]), "owner", "n"),
    "combine/group by plain": lambda v: rows(people.exclude(note=v[0]).values("note").annotate(m=Max("age")).order_by("note"), "note", "m"),
    "combine/order": lambda v: ([(name,) for name in people.order_by("-name").values_list("name", flat=True)[v[1]:v[1] + v[0]]], None),
    "combine/order by number": lambda v: ([(id,) for id in people.order_by("age", "id").values_list("id", flat=True)[:3]], None),
    "combine/distinct": lambda v: rows(pets.filter(owner_id__isnull=False).order_by("owner_id").distinct(), "owner_id"),
    "combine/union": union,
    "combine/cursor": fetched,
    "combine/together": each(lambda v: rows(people.filter(name=v[0]), "name", "age")),
    "change/update": lambda v: (None, people.filter(name=v[2]).update(name=v[0], note=v[1])),
    "change/computed": computed,
    "change/put back": put_back,
    "change/locked": locked,
    "change/created": created,
    "change/case": by_case,
    "change/conflict": upsert,
    "change/conflict ignored": ignored,
    "change/update many": update_many,
    "change/delete": deleted,
    "nulls/insert": insert,
    "nulls/is null": lambda v: rows(people.filter(name__isnull=True), *FIELDS),
    "nulls/coalesce": lambda v: rows(people.filter(id=v[1]).annotate(c=Coalesce("name", Value(v[0]))), "c"),
    "nulls/to null": to_null,
    "nulls/count": lambda v: ([tuple(people.aggregate(a=Count("*"), b=Count("paid"), c=Count("name")).values())], None),
    "nulls/delete": lambda v: (None, people.filter(name__isnull=True).delete()[0]),
    "types/insert": bulk(Sample, SAMPLE),
    "types/select": lambda v: rows(Sample.objects.order_by("id"), *SAMPLE),
    "types/insert lists": bulk(Lists, ("id", "t", "i")),
    "types/select lists": lambda v: rows(Lists.objects.order_by("id"), "id", "t", "i"),
    "types/element": lambda v: rows(Lists.objects.filter(t__contains=[v[0]]), "id", "t__0"),
    "ranges/too large": lambda v: (None, people.filter(id=v[1]).update(age=v[0])),
    "ranges/overflow": lambda v: (None, people.filter(id=v[1]).update(age=F("age") + v[0])),
    "ranges/unchanged": lambda v: rows(people.filter(id=v[0]), "age"),
    "transactions/clean": lambda v: (None, people.filter(id__gt=v[0]).delete()[0]),
    "errors/no such column": lambda v: rows(people.filter(name=v[0]).extra(select={"n": "nothing"}), "n"),
    "errors/failed": lambda v: rows(people.filter(name=v[0]), "id"),
    "prepared/select": each(lambda v: rows(people.filter(name=v[0], id__lt=v[1]), "id", "name", "age")),
    "prepared/update": each(set_age),
    "large/insert": lambda v: (None, len([Blob.objects.create(id=v[0], t=v[1], y=v[2])])),
    "large/select": lambda v: rows(Blob.objects.filter(id=v[0]), "id", "t", "y"),
    "cancelled/timeout": lambda v: rows(people.filter(name=v[0]).annotate(s=Sleep(Value(30))), "id", "s"),
}
STEPS |= {f"types/equal {name}": lambda v, name=name: rows(Sample.objects.filter(**{name: v[0], "id": v[1]}), "id") for name in SAMPLE[1:]}


def insert_named(v):
    people.create(id=v[0], name=v[1])
    return None, 1


class Django:
    """Its connection, and the transaction of the scenario."""

    def connect(self, _):
        self.marks = []

    def close(self):
        connection.close()

    def oids(self):
        return []

    def begin(self):
        self.outer = transaction.atomic()
        self.outer.__enter__()

    def commit(self):
        self.outer.__exit__(None, None, None)

    def rollback(self):
        transaction.set_rollback(True)
        self.commit()

    def savepoint(self, _):
        self.marks.append(transaction.savepoint())

    def release(self, _):
        transaction.savepoint_commit(self.marks.pop())

    def back(self, _):
        transaction.savepoint_rollback(self.marks.pop())


class Orm(Program):
    """The steps by their names."""

    def step(self, name, step):
        self.name = name
        if name not in ABSENT:
            super().step(name, step)

    def do(self, step, values, batch):
        if step["do"] in ("begin", "commit", "rollback"):
            return None, getattr(self.driver, step["do"])()
        if step["do"] in ("savepoint", "release", "back"):
            return None, getattr(self.driver, step["do"])(step["sql"])
        try:
            return self.function(step)(batch or values)
        except (DatabaseError, transaction.TransactionManagementError) as error:
            state = getattr(error.__cause__, "sqlstate", None)
            raise Failed(state or "client", str(error)) from error

    def function(self, step):
        if function := STEPS.get(self.name):
            return function
        scenario, _, what = self.name.partition("/")
        if scenario == "tables" or what in ("new column", "set", "reset"):
            return lambda v: by_hand(v, step["sql"])
        if scenario == "transactions" and step["gives"]:
            return lambda v: rows(people.filter(name__startswith=v[0][:-1]).order_by("id"), "id", "name")
        if scenario == "transactions" or what.startswith("unique"):
            return insert_named
        if what.startswith("refused"):
            return lambda v: rows(people.filter(name=Joined(Value(v[0]), Value(v[1]))), "id")
        if scenario in ("errors", "cancelled"):
            return lambda v: rows(people.filter(name=v[0]), "id")
        raise KeyError(self.name)


ABSENT = {"prepared/with it", "cancelled/cancel"}

if __name__ == "__main__":
    Orm(Django()).run()
