// Runs the scenarios with a driver of node's (tests/drivers/scenarios.py says what is in the file, and what is printed).
// A driver is an object of async methods: connect, close, rows, count, many, cursor, begin, commit, rollback, mark, cancel.
// One that does not tell the OIDs of types `hides` them.

const crypto = require("crypto");
const fs = require("fs");

const LONGEST = 4096;

// The value that an application has. JavaScript has no integers of 64 bits, no decimals and no dates: those are text.
function native(type, value) {
  if (value === null) return null;
  if (type.endsWith("[]")) return value.map((item) => native(type.slice(0, -2), item));
  if (typeof value === "object") value = value.repeat.repeat(value.times);
  switch (type) {
    case "int4": case "float4": case "float8": return Number(value);
    case "bool": return value === "true";
    case "bytea": return Buffer.from(value, "hex");
    default: return value;
  }
}

// The name of a value's type, and its text. Of a date, the driver made the midnight of this zone.
function shown(value, oid) {
  if (value === null) return null;
  if (Array.isArray(value)) return ["list", value.map((item) => shown(item))];
  if (value instanceof Date) return ["Date", oid === 1082 ? day(value) : oid === 1114 ? local(value) : value.toISOString()];
  if (Buffer.isBuffer(value)) return ["Buffer", short(value.toString("hex"))];
  return [typeof value, short(String(value))];
}

function digits(number, length) {
  return String(number).padStart(length, "0");
}

function day(date) {
  return [digits(date.getFullYear(), 4), digits(date.getMonth() + 1, 2), digits(date.getDate(), 2)].join("-");
}

function local(date) {
  const time = [date.getHours(), date.getMinutes(), date.getSeconds()].map((part) => digits(part, 2)).join(":");
  return `${day(date)}T${time}.${digits(date.getMilliseconds(), 3)}`;
}

function short(text) {
  if (text.length <= LONGEST) return text;
  return "sha256:" + crypto.createHash("sha256").update(text).digest("hex");
}

function print(step, result) {
  fs.writeSync(1, JSON.stringify({ step, ...result }) + "\n");
}

async function done(driver, step, values, batch) {
  const { do: what, sql } = step;
  switch (what) {
    case "begin": case "commit": case "rollback": return driver[what]();
    case "savepoint": return driver.mark(`SAVEPOINT ${sql}`);
    case "release": return driver.mark(`RELEASE SAVEPOINT ${sql}`);
    case "back": return driver.mark(`ROLLBACK TO SAVEPOINT ${sql}`);
    case "many": return { count: await driver.many(step, batch) };
    case "together": case "again": return driver[what](step, batch);
    case "cursor": case "cancel": return driver[what](step, values);
    default: return driver.execute(step, values);
  }
}

// The connection that a driver gets: to the proxy, or through the package of bindings/node.
async function connection({ host, port, inside }) {
  if (!inside) return { config: { host, port, user: "postgres", database: "postgres" }, stop() {} };
  const client = await require("pgseal").start(inside);
  return { config: client.config(), url: client.connectionString, stop: () => client.stop() };
}

async function run(driver, absent = []) {
  const config = JSON.parse(fs.readFileSync(process.argv[process.argv.length - 1], "utf8"));
  await driver.connect(config);
  for (const scenario of config.scenarios) {
    for (const step of scenario.steps) {
      step.full = `${scenario.name}/${step.name}`;
      if (absent.includes(step.full)) continue;
      const of = (row) => row.map((value, at) => native(step.types[at], value));
      try {
        const { rows, count, oids } = (await done(driver, step, of(step.values), step.batch.map(of))) || {};
        if (step.rows === null) print(step.full, { count: count ?? null });
        else print(step.full, { rows: rows.map((row) => row.map((value, at) => shown(value, oids[at]))), oids: driver.hides ? [] : oids });
      } catch (error) {
        print(step.full, { error: error.code && error.code.length === 5 ? error.code : "client", message: error.message });
      }
    }
  }
  await driver.close();
}

module.exports = { connection, run };
