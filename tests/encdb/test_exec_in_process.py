#!/usr/bin/env python3
"""pgseal client exec --in-process: the engine inside psql, pg_dump, psycopg2 and programs that speak the protocol themselves.

Programs wait for their sockets in their own ways, so each of them is run: by libpq, by select, a few bytes at a time, from threads
with little stack. What would pass the engine by fails.
"""

import signal
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from certificates import Certificates  # noqa: E402
from confidential import TOOLS  # noqa: E402
from executed import ClientExec  # noqa: E402
from pgseal_test import TIME_LIMIT, main  # noqa: E402
from proxied import LOG_ALL, TABLE  # noqa: E402
from waiting import eventually  # noqa: E402

IN_PROCESS = ["--in-process"]
ROWS = 20_000

CONNECT = """
import os, select, socket, struct, sys, threading
import psycopg2, psycopg2.extensions
def connect(**options):
    return psycopg2.connect(dbname="postgres", user="postgres", **options)
"""

# Rows that are encrypted in the server, as long as those before and after them are not.
WRITTEN = CONNECT + f"""
import io
with connect() as connection, connection.cursor() as cursor:
    rows = "".join("%d\\tsecret%d %s\\t%d\\n" % (n, n, "x" * (n % 700), n) for n in range({ROWS}))
    cursor.copy_expert("COPY person (id, name, age) FROM STDIN", io.StringIO(rows))
    cursor.execute("SELECT sum(age), count(*) FROM person WHERE name LIKE %s", ("secret%",))
    print(*cursor.fetchone())
"""

# With psycopg2's asynchronous form the program itself waits for the descriptor.
BY_SELECT = CONNECT + """
def wait(connection):
    while (state := connection.poll()) != psycopg2.extensions.POLL_OK:
        reads = [connection.fileno()] if state == psycopg2.extensions.POLL_READ else []
        writes = [connection.fileno()] if state == psycopg2.extensions.POLL_WRITE else []
        assert any(select.select(reads, writes, [], 30)), "nothing to read, and nothing to write"
connection = connect(async_=1)
wait(connection)
cursor = connection.cursor()
for _ in range(3):
    cursor.execute("SELECT name, age FROM person ORDER BY id")
    wait(connection)
    rows = cursor.fetchall()
    assert all(row == ("secret%d %s" % (n, "x" * (n % 700)), n) for n, row in enumerate(rows))
    print(len(rows))
cursor.execute("SELECT age FROM person WHERE name = %s", ("secret3 xxx",))
wait(connection)
print(cursor.fetchall())
"""

# A driver that reads few bytes at a time, and waits for each of them.
BY_BYTES = CONNECT + """
peer = socket.socket(socket.AF_UNIX)
peer.connect("%s/.s.PGSQL.%s" % (os.environ["PGHOST"], os.environ["PGPORT"]))
peer.setblocking(False)
def message(kind, body):
    return kind + struct.pack("!I", len(body) + 4) + body
def receive(count):
    got = b""
    while len(got) < count:
        assert select.select([peer], [], [], 30)[0], "bytes wait, and the descriptor cannot be read"
        try:
            peeked = peer.recv(5, socket.MSG_PEEK)
        except BlockingIOError:  # what has come was not for the program
            continue
        read = peer.recv(min(5, count - len(got)))
        assert read and peeked[:len(read)] == read
        got += read
    return got
def answers():
    while True:
        kind, length = struct.unpack("!cI", receive(5))
        body = receive(length - 4)
        yield kind, body
        if kind == b"Z":
            return
body = struct.pack("!I", 196608) + b"user\\0postgres\\0database\\0postgres\\0\\0"
for byte in message(b"", body):
    peer.send(bytes([byte]))
print(len(list(answers())) > 5)
for sql in (b"SELECT name, age FROM person WHERE id < 500 ORDER BY id", b"SELECT 'plain', id FROM person WHERE id < 500 ORDER BY id"):
    peer.sendall(message(b"Q", sql + b"\\0"))
    print(sum(kind == b"D" and (b"secret" in body or b"plain" in body) for kind, body in answers()))
# Copies of the descriptor are the same connection.
import fcntl
peer.setblocking(True)
for copied in (lambda: os.dup(peer.fileno()), lambda: fcntl.fcntl(peer.fileno(), fcntl.F_DUPFD_CLOEXEC, 100),
               lambda: os.dup2(peer.fileno(), 200)):
    copy = copied()
    os.write(copy, message(b"Q", b"SELECT name FROM person WHERE name = 'secret7 xxxxxxx'\\0"))
    got = os.read(copy, 1)
    os.close(copy)
    receive(struct.unpack("!I", receive(4))[0] - 4)
    print(got == b"T", sum(kind == b"D" and b"secret7 " in body for kind, body in answers()))
peer.setblocking(False)
# The last byte of an answer is read, and none is left.
print(select.select([peer], [], [], 0.2)[0])
for call in (lambda: peer.sendmsg([b"Q"]), lambda: peer.recvmsg(1), lambda: os.writev(peer.fileno(), [b"Q"]),
             lambda: os.readv(peer.fileno(), [bytearray(1)]), lambda: os.sendfile(peer.fileno(), 0, 0, 1)):
    try:
        call()
        print("passed")
    except OSError as error:
        print(error.errno == 95)
import ctypes
libc = ctypes.CDLL(None)
libc.fdopen.restype = ctypes.c_void_p
print(libc.fdopen(peer.fileno(), b"w"))
print(peer.recv_into(bytearray(1)) if select.select([peer], [], [], 0)[0] else "nothing")
"""

THREADS = CONNECT + """
import subprocess
threading.stack_size(64 << 10)
found = []
def ask(number):
    connection = connect()
    with connection, connection.cursor() as cursor:
        for at in range(20):
            deep = "(" * 200 + "true" + ")" * 200
            cursor.execute("SELECT name FROM person WHERE id = %s AND name LIKE %s AND " + deep, (at, "secret%"))
            found.append(cursor.fetchone()[0].split()[0] == "secret%d" % at)
    connection.close()
threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(found), all(found))
# A child of vfork shares the program's memory, and closes the connection's descriptor. One of fork does so in its own.
connection = connect()
cursor = connection.cursor()
def named(secret):
    cursor.execute("SELECT count(*) FROM person WHERE name = %s", (secret,))
    return cursor.fetchone()[0]
print(subprocess.run(["echo", "child"], capture_output=True, text=True, close_fds=True).stdout.strip(), named("secretVfork"))
child = os.fork()
if child == 0:
    os.close(connection.fileno())
    with open("ofchild", "w+b", buffering=0) as file:
        os.dup2(file.fileno(), connection.fileno())
        os.write(connection.fileno(), b"of a child")
    os._exit(0)
os.waitpid(child, 0)
print(open("ofchild").read(), named("secretFork"))
# A number that was a connection's is a file's now.
number = connection.fileno()
connection.close()
with open("plain", "w+b", buffering=0) as file:
    os.dup2(file.fileno(), number)
    os.write(number, b"of a file")
    print(os.pread(number, 20, 0))
"""

ERRORS = CONNECT + """
connection = connect()
connection.autocommit = True
cursor = connection.cursor()
for sql in ("DO $$ BEGIN PERFORM 1 FROM person WHERE name = 'secretEve'; END $$", "SELECT 1/0",
            "SET statement_timeout = 50; SELECT pg_sleep(9)"):
    try:
        cursor.execute(sql)
        print("done")
    except psycopg2.Error as error:
        print(error.pgcode)
cursor.execute("SET statement_timeout = 0")
timer = threading.Timer(0.5, connection.cancel)
timer.start()
try:
    cursor.execute("SELECT pg_sleep(60)")
except psycopg2.Error as error:
    print(error.pgcode)
cursor.execute("SELECT name FROM person WHERE id = 2")
print(cursor.fetchone()[0].split()[0])
try:
    cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")
except psycopg2.Error as error:
    print(type(error).__name__)
print(connection.closed != 0)
"""


BYTES_SAID = ["True", "500", "500"] + ["True 1"] * 3 + ["[]"] + ["True"] * 5 + ["None", "nothing"]
THREADS_SAID = ["160 True", "child 0", "of a child 0", "b'of a file'"]


class InProcess(ClientExec):
    def program(self, text, **variables):
        """What a program of Python prints."""
        script = self.directory / "script.py"
        script.write_text(text)
        return self.run_with(self.cluster_, sys.executable, script, options=IN_PROCESS, **variables).splitlines()

    def check_all(self):
        total = ROWS * (ROWS - 1) // 2
        self.assertEqual(self.program(WRITTEN), [f"{total} {ROWS}"])
        self.assertEqual(self.program(BY_SELECT), [str(ROWS)] * 3 + ["[(3,)]"])
        self.assertEqual(self.program(BY_BYTES), BYTES_SAID)
        self.assertEqual(self.program(THREADS), THREADS_SAID)
        refused, *others = self.program(ERRORS)
        self.assertEqual(refused, "0A000")
        self.assertEqual(others, ["22012", "57014", "57014", "secret2", "OperationalError", "True"])
        self.assert_never_in_clear("secret")


class Programs(InProcess):
    def test_inline(self):
        self.shop()
        self.check_all()

    def test_isolated(self):
        self.shop("isolated")
        self.check_all()

    def test_psql_and_pg_dump(self):
        self.shop()
        cluster = self.cluster_
        script = "INSERT INTO person (id, name, age) VALUES (1, 'secretAda', 36); SELECT name, age FROM person WHERE name LIKE 'secret%'"
        self.assertEqual(self.run_with(cluster, "psql", "-XAtq", stdin=script, options=IN_PROCESS), "secretAda|36\n")
        self.assertIn("name public.enc_text", self.run_with(cluster, "pg_dump", "-s", options=IN_PROCESS))
        # A program of a program has an engine, too.
        shell = self.run_with(cluster, "psql", "-XAtq", stdin="\\! psql -XAtqc 'SELECT name FROM person'\n", options=IN_PROCESS)
        self.assertEqual(shell, "secretAda\n")
        self.assert_never_in_clear("secret")

    def test_ctrl_c_ends_a_statement(self):
        self.ctrl_c_ends_a_statement(IN_PROCESS)


class FailsClosed(InProcess):
    def test_a_program_without_the_library_finds_no_server(self):
        self.shop()
        done = self.run_with(self.cluster_, "env", "-u", "LD_PRELOAD", "psql", "-Xc", "SELECT 1", options=IN_PROCESS, code=2)
        self.assertIn("No such file", done)

    def test_a_server_that_is_not_there_is_said(self):
        cluster = self.bare()
        said = self.run_with(cluster, "psql", "-c", "SELECT 1", options=IN_PROCESS, code=2, PGHOST="/nonexistent")
        self.assertIn("pgseal has no connection: the server does not answer", said)

    def test_settings_are_for_their_user_and_hold_no_password(self):
        cluster = self.bare()
        with_password = ["-d", f"user=postgres password=secretAda host={cluster.home}"]
        shown = self.run_with(cluster, "sh", "-c", "stat -c %a $PGHOST/settings.toml; cat $PGHOST/settings.toml",
                              options=[*IN_PROCESS, *with_password])
        mode, *settings = shown.splitlines()
        self.assertEqual(mode, "600")
        self.assertIn("identity = ", "".join(settings))
        self.assertNotIn("secret", shown)

    def test_what_is_wrong_is_said_before_the_program_starts(self):
        cluster = self.bare()
        said = self.run_with(cluster, "echo", "started", options=[*IN_PROCESS, "-i", "/nonexistent"], code=5)
        self.assertIn("/nonexistent", said)

    def test_a_server_that_dies_ends_the_statement(self):
        self.shop()
        process = self.start_with(self.cluster_, "psql", "-Xc", "SELECT pg_sleep(60)", options=IN_PROCESS, stderr=subprocess.PIPE)
        asleep = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%' AND state = 'active'"
        eventually(lambda: self.cluster_.psql(asleep) == "1", process=process)
        pid = self.cluster_.psql("SELECT pid FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%'")
        self.cluster_.psql(f"SELECT pg_terminate_backend({pid})")
        said = process.communicate(timeout=TIME_LIMIT)[1]
        self.assertEqual(process.returncode, 2)
        self.assertIn("terminating connection", said)

    def test_signals_reach_the_program_and_nothing_is_left(self):
        process = self.start_with(self.bare(), "sh", "-c", "echo; exec sleep 60", options=IN_PROCESS, stdout=subprocess.PIPE)
        process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(TIME_LIMIT), 143)
        process.stdout.close()
        self.assertEqual(list(self.runtime.iterdir()), [])


class Tls(InProcess):
    def test_a_network_has_tls_and_the_certificate_is_checked(self):
        certificates, port = Certificates(self.directory), self.reserved_port()
        for name in ("root", "stranger"):
            certificates.self_signed(name, "/CN=" + name)
        certificates.signed("server", "/CN=localhost", "DNS:localhost")
        files = f"ssl_cert_file = '{certificates.path('server', 'crt')}'\nssl_key_file = '{certificates.path('server', 'key')}'\n"
        conf = f"listen_addresses = '127.0.0.1'\nport = {port}\nssl = on\n{LOG_ALL}{files}"
        self.cluster_ = cluster = self.server("tls", conf=conf, PGPORT=str(port))
        for command in (["init"], ["key", "new"], ["grant", "add", "--allow", "all"]):
            self.client(cluster, *command)
        cluster.psql(TABLE)
        self.client(cluster, "column", "add", "--all")
        cluster.psql("CREATE ROLE ada SUPERUSER LOGIN PASSWORD 'x'")
        (cluster.data / "pg_hba.conf").write_text("local all all trust\nhostssl all ada all scram-sha-256\nhostssl all all all trust\n")
        cluster.psql("SELECT pg_reload_conf()")

        def network(root, host="localhost", mode="verify-full"):
            return {"PGHOST": host, "PGSSLMODE": mode, "PGSSLROOTCERT": str(certificates.path(root, "crt"))}
        trusted = network("root")
        total = ROWS * (ROWS - 1) // 2
        self.assertEqual(self.program(WRITTEN, **trusted), [f"{total} {ROWS}"])
        self.assertEqual(self.program(BY_SELECT, **trusted), [str(ROWS)] * 3 + ["[(3,)]"])
        self.assertEqual(self.program(BY_BYTES, **trusted), BYTES_SAID)
        self.assertEqual(self.program(THREADS, **trusted), THREADS_SAID)
        asked = ["psql", "-XAtqc", "SELECT ssl, current_user FROM pg_stat_ssl WHERE pid = pg_backend_pid()"]
        told = {**trusted, "PGUSER": "ada", "PGPASSWORD": "x"}
        self.assertEqual(self.run_with(cluster, *asked, options=IN_PROCESS, **told), "t|ada\n")
        before = cluster.log().count("connection authorized")
        for wrong, said in ((network("stranger"), "UnknownIssuer"), (network("root", "127.0.0.1"), "name")):
            self.assertIn(said, self.run_with(cluster, *asked, options=IN_PROCESS, code=2, **wrong))
        self.assertEqual(cluster.log().count("connection authorized"), before)
        self.assert_never_in_clear("secret")


if __name__ == "__main__":
    main(__file__, TOOLS)
