"""Encrypted columns of PostgreSQL for every driver of Python, inside the process.

connect() gives a connection of psycopg (3, or psycopg2 where that is not installed); dsn() and url() give a connection string for
whatever else: SQLAlchemy, Django, asyncpg. Behind it a thread of the process is between driver and server, seals what is sent to
encrypted columns, and opens what comes back, with the owner's keys. Another process of the user cannot connect through it unless you
pass the string on.
"""

from ._client import Client, Error, client, version

__all__ = ["Client", "Error", "client", "connect", "dsn", "url", "version"]


def dsn(conninfo="", **options):
    """A libpq connection string. `conninfo` is the server's, as a string of libpq or a URL; what it leaves out is libpq's PG* variables.

    Options: identity (a path), and accept ("software:KEY") or policy (a path), as `pgseal client` has them, with the same variables of
    the environment where they are missing. trust_server_types=True lets the server say which columns are encrypted where the identity
    has no list of them. session_pool=True says that the server is behind a pool which gives each connection one of the server's up to
    its end.
    """
    return client(conninfo, **options).conninfo


def url(conninfo="", scheme="postgresql", **options):
    """A connection string as a URL, for what takes no other: SQLAlchemy (scheme="postgresql+psycopg"), asyncpg."""
    return client(conninfo, **options).url(scheme)


def connect(conninfo="", *, identity=None, accept=None, policy=None, rules=None, trust_server_types=False, session_pool=False,
            **arguments):
    """A connection. Arguments beside the options are psycopg's."""
    try:
        import psycopg as driver
    except ImportError:
        import psycopg2 as driver
    options = {"identity": identity, "accept": accept, "policy": policy, "rules": rules, "trust_server_types": trust_server_types,
               "session_pool": session_pool}
    return driver.connect(dsn(conninfo, **options), **arguments)
