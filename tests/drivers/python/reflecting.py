"""What SQLAlchemy and Django make of the catalog's types. Usage: reflecting.py sqlalchemy|registered|django CONFIG

Prints what each calls the columns of the table `person`; of SQLAlchemy's also whether a reflected table can be used.
"""

import io
import json
import re
import sys
import warnings

CONFIG = json.load(open(sys.argv[-1]))


def with_sqlalchemy(registered):
    import sqlalchemy as sa
    from sqlalchemy.dialects.postgresql import base
    if registered:
        plain = {"enc_text": sa.Text, "enc_int4": sa.Integer, "enc_decimal": sa.Numeric, "enc_date": sa.Date}
        base.ischema_names.update(plain)
    url = sa.URL.create("postgresql+psycopg", "postgres", database="postgres", query={"host": CONFIG["host"], "port": str(CONFIG["port"])})
    engine = sa.create_engine(url)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        person = sa.Table("person", sa.MetaData(), autoload_with=engine)
    with engine.begin() as connection:
        connection.execute(sa.insert(person), [{"id": 1, "name": CONFIG["mark"], "age": 36}])
        rows = connection.execute(sa.select(person.c.id, person.c.age).where(person.c.name == CONFIG["mark"])).all()
    types = {column.name: type(column.type).__name__ for column in person.columns}
    return {"types": types, "rows": [list(row) for row in rows], "warnings": len(warned)}


def with_django():
    import django
    from django.conf import settings
    from django.core.management import call_command
    settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", "NAME": "postgres", "USER": "postgres",
                                              "HOST": CONFIG["host"], "PORT": str(CONFIG["port"])}})
    django.setup()
    out = io.StringIO()
    call_command("inspectdb", "person", stdout=out)
    return {"types": dict(re.findall(r"^    (\w+) = models\.(\w+)\(", out.getvalue(), re.M))}


if __name__ == "__main__":
    print(json.dumps(with_django() if sys.argv[1] == "django" else with_sqlalchemy(sys.argv[1] == "registered")))
