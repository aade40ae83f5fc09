// Encrypted columns of PostgreSQL for node-postgres, and for whatever stands on it, inside the process. The library
// libpgseal_client.so does everything; this passes strings.

const fs = require("fs");
const koffi = require("koffi");
const path = require("path");
const { promisify } = require("util");

const INTERFACE = 2;
const LIBRARY = "libpgseal_client.so.0";

// Why there is no client, in one sentence.
class PgsealError extends Error {
  constructor(sentence, options) {
    super(sentence, options);
    this.name = "PgsealError";
  }
}

const running = new Set();
let library = null;

// The library that PGSEAL_CLIENT_LIBRARY names, else the one in the package, else the loader's.
function load() {
  if (library) return library;
  const own = path.join(__dirname, LIBRARY);
  const name = process.env.PGSEAL_CLIENT_LIBRARY || (fs.existsSync(own) ? own : LIBRARY);
  let loaded;
  try {
    loaded = koffi.load(name);
  } catch (cause) {
    throw new PgsealError(`${name} cannot be loaded: install pgseal's client library, or set PGSEAL_CLIENT_LIBRARY`, { cause });
  }
  if (loaded.func("int pgseal_client_interface()")() !== INTERFACE) {
    throw new PgsealError("this package and its library are of different versions: install both from one release");
  }
  library = {
    version: loaded.func("const char *pgseal_client_version()"),
    start: loaded.func("void *pgseal_client_start(const char **keywords, const char **values, _Out_ void **error)"),
    parameter: loaded.func("const char *pgseal_client_parameter(void *client, const char *keyword)"),
    stop: loaded.func("void pgseal_client_stop(void *client)"),
    free: loaded.func("void pgseal_client_free(void *text)"),
  };
  process.on("exit", () => running.forEach((client) => client.stopNow()));
  return library;
}

// A thread of this process between drivers and one server. It ends with stop(), or with the process.
class Client {
  #handle;
  #parameters;

  constructor(handle) {
    this.#handle = handle;
    const named = ["host", "port", "user", "password", "dbname", "options"].map((name) => [name, library.parameter(handle, name)]);
    this.#parameters = Object.fromEntries(named.filter(([, value]) => value !== null));
    running.add(this);
  }

  // For a Pool or a Client of node-postgres, and as `connection` of Knex.
  config() {
    const { host, port, user, password, dbname, options } = this.#parameters;
    return { host, port: Number(port), user, password, database: dbname, options, ssl: false };
  }

  // The same as a URL.
  get connectionString() {
    const { host, port, user, password, dbname, options } = this.#parameters;
    const login = [user, password].filter((text) => text !== undefined).map(encodeURIComponent).join(":");
    const place = `${login ? login + "@" : ""}${encodeURIComponent(host)}:${port}/${encodeURIComponent(dbname)}`;
    return `postgresql://${place}?sslmode=disable${options === undefined ? "" : "&options=" + encodeURIComponent(options)}`;
  }

  // Ends all connections that go through this client.
  async stop() {
    const handle = this.#taken();
    if (handle) await promisify(library.stop.async)(handle);
  }

  // The same for the end of the process, which waits for no promise.
  stopNow() {
    const handle = this.#taken();
    if (handle) library.stop(handle);
  }

  #taken() {
    running.delete(this);
    const handle = this.#handle;
    this.#handle = null;
    return handle;
  }
}

// Starts a client. Options: server (a connection string of libpq, or a URL), identity (a path), accept ("software:KEY") or policy (a path);
// trustServerTypes lets the server say which columns are encrypted where the identity has no list of them, and sessionPool says that the
// server is behind a pool that gives each connection one of the server's up to its end.
async function start({ trustServerTypes, sessionPool, ...options } = {}) {
  load();
  const given = Object.entries({ ...options, trust_server_types: trustServerTypes, session_pool: sessionPool }).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const error = [null];
  const handle = await promisify(library.start.async)(
    [...given.map(([name]) => name), null], [...given.map(([, value]) => String(value)), null], error);
  if (handle) return new Client(handle);
  const sentence = koffi.decode(error[0], "char", -1);
  library.free(error[0]);
  throw new PgsealError(sentence);
}

// Version and commit of the library.
function version() {
  return load().version();
}

module.exports = { start, version, PgsealError };
