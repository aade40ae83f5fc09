"""The library libpgseal_client.so, by ctypes. It does everything; this passes strings."""

import atexit
import ctypes
import os
import threading
from pathlib import Path
from urllib.parse import quote

INTERFACE = 2
LIBRARY = "libpgseal_client.so.0"


class Error(Exception):
    """Why there is no client, in one sentence."""


class Client:
    """A thread of this process between drivers and one server. It ends with close(), or with the process."""

    def __init__(self, server="", **options):
        given = {"server": server, **options}
        named = [(name, text(value)) for name, value in given.items() if value]
        keywords = strings([name for name, _ in named])
        values = strings([value for _, value in named])
        error = ctypes.c_void_p()
        self._handle = library().pgseal_client_start(keywords, values, ctypes.byref(error))
        if not self._handle:
            sentence = ctypes.string_at(error.value).decode()
            library().pgseal_client_free(error)
            raise Error(sentence)
        self.host = self.parameter("host")
        self.port = int(self.parameter("port"))
        self.conninfo = library().pgseal_client_conninfo(self._handle).decode()

    def parameter(self, keyword):
        """What the connection string says of a keyword, or None."""
        value = library().pgseal_client_parameter(self._handle, keyword.encode())
        return value and value.decode()

    def url(self, scheme="postgresql"):
        """The connection string as a URL."""
        user, password, database = (quote(self.parameter(name) or "", safe="") for name in ("user", "password", "dbname"))
        login = f"{user}:{password}@" if user and password else f"{user}@" if user else ""
        return f"{scheme}://{login}/{database}?host={quote(self.host, safe='')}&port={self.port}"

    def close(self):
        """Ends all connections that go through this client."""
        handle, self._handle = self._handle, None
        if handle:
            library().pgseal_client_stop(handle)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def version():
    """Version and commit of the library."""
    return library().pgseal_client_version().decode()


_clients = {}
_lock = threading.Lock()


def client(server="", **options):
    """The client of this server and these options: one for all that ask in this process."""
    key = (os.getpid(), server, *sorted((name, text(value)) for name, value in options.items() if value))
    with _lock:
        known = _clients.get(key)
        if known is None or known._handle is None:
            known = _clients[key] = Client(server, **options)
        return known


def close_all():
    for known in list(_clients.values()):
        known.close()


def reset_after_fork():
    """A child has the parent's lock, perhaps taken, and none of its threads."""
    global _lock
    _lock = threading.Lock()


atexit.register(close_all)
os.register_at_fork(after_in_child=reset_after_fork)


def text(value):
    """An option as the library reads it."""
    return "true" if value is True else os.fspath(value)


def strings(texts):
    """An array of C's strings that ends with null."""
    return (ctypes.c_char_p * (len(texts) + 1))(*[text.encode() for text in texts], None)


_library = None


def library():
    """The library: beside this file in a wheel, or where PGSEAL_CLIENT_LIBRARY or the loader finds it."""
    global _library
    if _library is None:
        here = Path(__file__).parent / LIBRARY
        named = os.environ.get("PGSEAL_CLIENT_LIBRARY") or (str(here) if here.exists() else LIBRARY)
        try:
            _library = declared(ctypes.CDLL(named))
        except OSError as error:
            raise Error(f"{named} cannot be loaded ({error}): install pgseal's client library, or set PGSEAL_CLIENT_LIBRARY") from error
    return _library


def declared(loaded):
    """The library with the types of pgseal_client.h."""
    if loaded.pgseal_client_interface() != INTERFACE:
        raise Error("this package and its library are of different versions: install both from one release")
    array = ctypes.POINTER(ctypes.c_char_p)
    for name, result, arguments in [
        ("version", ctypes.c_char_p, []),
        ("start", ctypes.c_void_p, [array, array, ctypes.POINTER(ctypes.c_void_p)]),
        ("conninfo", ctypes.c_char_p, [ctypes.c_void_p]),
        ("parameter", ctypes.c_char_p, [ctypes.c_void_p, ctypes.c_char_p]),
        ("stop", None, [ctypes.c_void_p]),
        ("free", None, [ctypes.c_void_p]),
    ]:
        function = getattr(loaded, f"pgseal_client_{name}")
        function.restype, function.argtypes = result, arguments
    return loaded
