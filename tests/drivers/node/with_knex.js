// Knex on node-postgres: each step is written as an application would. Usage: with_knex.js CONFIG

const knex = require("knex");
const { connection, run } = require("./interpreter");

let db;
let through;
let outer = null;
const marks = [];
const on = () => marks[marks.length - 1] || outer || db;
const person = () => on()("person");
const pet = () => on()("pet");
const FIELDS = ["id", "name", "age", "paid", "born", "note"];
const PETS = ["id", "owner", "nick", "big"];
const SAMPLE = ["id", "i", "l", "n", "f", "g", "t", "b", "d", "s", "z", "u", "y"];
const named = (fields, values) => Object.fromEntries(fields.map((field, at) => [field, values[at]]));
const ids = (query) => query.orderBy("id").select("id");
const one = (v) => person().insert(named(FIELDS, v));
const ADDED = (v) => person().insert(named(["id", "name"], v));
const each = async (batch, of) => (await Promise.all(batch.map(of))).flat();
const sampled = Object.fromEntries(SAMPLE.slice(1).map((name) => [`types/equal ${name}`,
  (v) => on()("sample").where({ [name]: v[0], id: v[1] }).select("id")]));

const STEPS = {
  "insert/one": one,
  "insert/returning": (v) => one(v).returning(["id", "name", "paid"]),
  "insert/many": (b) => person().insert(b.map((v) => named(FIELDS, v))),
  "insert/rows": (v) => db.batchInsert("person", [named(FIELDS, v.slice(0, 6)), named(FIELDS, v.slice(6))], 1),
  "insert/pets": (b) => pet().insert(b.map((v) => named(PETS, v))),
  "read/all": () => person().orderBy("id").select(FIELDS),
  "read/equal": (v) => person().where({ name: v[0], note: v[1] }).select("id", "name", "age"),
  "read/equal quoted": (v) => person().where("name", v[0]).select("id", "name"),
  "read/equal number": (v) => ids(person().where("age", v[0]).andWhere("id", ">", v[1])),
  "read/equal numeric": (v) => ids(person().where("paid", v[0])),
  "read/equal date": (v) => ids(person().where("born", v[0])),
  "read/in": (v) => ids(person().whereIn("name", v)),
  "read/any": (v) => ids(person().whereRaw("name = ANY(?)", [v[0]])),
  "read/any number": (v) => ids(person().whereRaw("age = ANY(?)", [v[0]])),
  "read/between": (v) => ids(person().whereBetween("born", v)),
  "read/less": (v) => ids(person().where("age", "<", v[0]).where("paid", ">=", v[1])),
  "read/like": (v) => ids(person().whereLike("name", v[0])),
  "read/like escaped": (v) => ids(person().where("name", "like", v[0])),
  "read/starts with": (v) => ids(person().whereLike("name", `${v[0]}%`)),
  "read/contains": () => ids(person().whereLike("name", '%Hara "q" \\\\ \\%%')),
  "read/ends with": (v) => ids(person().whereLike("name", v[0])),
  "read/not like": (v) => ids(person().whereNot("name", "like", v[0]).where("id", "<", v[1])),
  "read/ilike": (v) => ids(person().whereILike("name", v[0])),
  "read/function": (v) => ids(person().where(db.raw("lower(name)"), v[0])),
  "read/exists": (v) => ids(person().whereExists(pet().select(db.raw("1")).whereRaw("owner = person.name").where("nick", v[0]))),
  "read/nothing": (v) => person().where("name", v[0]).select("id", "name"),
  "combine/join": (v) => person().join("pet", "pet.owner", "person.name").whereNot("pet.nick", v[0])
    .orderBy(["person.id", "pet.id"]).select("person.id", "person.name", "pet.nick", "pet.big"),
  "combine/left join": (v) => person().leftJoin("pet", "pet.owner", "person.name").where("person.id", "<", v[0])
    .orderBy(["person.id", "pet.id"]).select("person.id", "pet.nick"),
  "combine/aggregates": (v) => person().where("id", "<=", v[0]).count({ a: "*" }).count({ b: "name" }).sum({ c: "age" })
    .min({ d: "name" }).max({ e: "born" }),
  "combine/sum of numeric": (v) => person().where("paid", ">", v[0]).sum("paid"),
  "combine/group": (v) => pet().groupBy("owner").having(db.raw("count(*)"), ">", v[0]).select("owner").count("*"),
  "combine/group by plain": (v) => person().whereNot("note", v[0]).groupBy("note").orderBy("note").select("note").max("age"),
  "combine/order": (v) => person().orderBy("name", "desc").limit(v[0]).offset(v[1]).select("name"),
  "combine/order by number": () => person().orderBy(["age", "id"]).limit(3).select("id"),
  "combine/distinct": () => pet().distinct("owner").whereNotNull("owner").orderBy("owner"),
  "combine/union": (v) => person().where("id", v[0]).select("name").unionAll([pet().where("id", v[1]).select("nick")]),
  "combine/together": (b) => each(b, (v) => person().where("name", v[0]).select("name", "age")),
  "change/update": (v) => person().where("name", v[2]).update({ name: v[0], note: v[1] }),
  "change/computed": (v) => person().where("id", v[1]).increment("age", v[0]).returning(["age", "name"]),
  "change/put back": (v) => person().where("id", v[2]).update({ name: v[0], age: v[1] }),
  "change/locked": (v) => person().where("name", v[0]).forUpdate().select("id", "name"),
  "change/created": (v) => person().where("name", v[0]).select("id", "name"),
  "change/case": (v) => person().whereIn("id", [3, 4]).update({ age: db.raw("CASE id WHEN 3 THEN ? WHEN 4 THEN ? END", v) }),
  "change/conflict": (v) => ADDED(v).onConflict("id").merge(["name"]).returning(["name", "age"]),
  "change/conflict ignored": (v) => ADDED(v).onConflict().ignore(),
  "change/update many": (b) => each(b, (v) => pet().where("nick", v[1]).update({ nick: v[0] })),
  "change/delete": (v) => pet().where("nick", v[0]).del(["id", "owner"]),
  "nulls/insert": one,
  "nulls/is null": () => person().whereNull("name").select(FIELDS),
  "nulls/coalesce": (v) => person().where("id", v[1]).select(db.raw("coalesce(name, ?) AS name", [v[0]])),
  "nulls/to null": (v) => person().where("id", v[1]).update({ paid: null, note: v[0] }).returning("paid"),
  "nulls/count": () => person().count({ a: "*" }).count({ b: "paid" }).count({ c: "name" }),
  "nulls/delete": () => person().whereNull("name").del(),
  "types/insert": (b) => on()("sample").insert(b.map((v) => named(SAMPLE, v))),
  "types/select": () => on()("sample").orderBy("id").select(SAMPLE),
  "types/insert lists": (b) => on()("lists").insert(b.map((v) => named(["id", "t", "i"], v))),
  "types/select lists": () => on()("lists").orderBy("id").select("id", "t", "i"),
  "types/element": (v) => on()("lists").whereRaw("? = ANY(t)", v).select("id", db.raw("t[1]")),
  ...sampled,
  "ranges/too large": (v) => person().where("id", v[1]).update({ age: v[0] }),
  "ranges/overflow": (v) => person().where("id", v[1]).increment("age", v[0]),
  "ranges/unchanged": (v) => person().where("id", v[0]).select("age"),
  "transactions/clean": (v) => person().where("id", ">", v[0]).del(),
  "errors/no such column": (v) => person().where("name", v[0]).select("nothing"),
  "prepared/select": (b) => each(b, (v) => person().where("name", v[0]).where("id", "<", v[1]).select("id", "name", "age")),
  "prepared/update": (b) => each(b, (v) => person().where("name", v[1]).update({ age: v[0] }).returning("age")),
  "prepared/with it": (v) => person().where("name", v[1]).update({ city: v[0] }).returning("city"),
  "large/insert": (v) => on()("blob").insert(named(["id", "t", "y"], v)),
  "large/select": (v) => on()("blob").where("id", v[0]).select("id", "t", "y"),
  "cancelled/timeout": (v) => person().where("name", v[0]).select("id", db.raw("pg_sleep(30)")),
};

function written(step) {
  const [scenario, what] = step.full.split("/");
  if (STEPS[step.full]) return STEPS[step.full];
  if (scenario === "tables" || ["new column", "set", "reset"].includes(what)) return () => on().raw(step.sql);
  if (scenario === "transactions" && step.gives) return (v) => person().whereLike("name", v[0]).orderBy("id").select("id", "name");
  if (scenario === "transactions" || what.startsWith("unique")) return ADDED;
  if (what.startsWith("refused")) return (v) => ids(person().where("name", db.raw("textcat(?::text, ?::text)", v)));
  return (v) => ids(person().where("name", v[0]));
}

const driver = {
  hides: true,

  async connect(config) {
    through = await connection(config);
    db = knex({ client: "pg", connection: through.url || through.config, pool: { min: 1, max: 1 } });
  },

  async close() {
    await db.destroy();
    await through.stop();
  },

  async execute(step, values) {
    const result = await written(step)(values);
    if (step.rows === null) return { count: typeof result === "number" ? result : result && result.rowCount };
    const oids = step.gives.map((type) => ({ date: 1082, timestamp: 1114, timestamptz: 1184 })[type] || 0);
    return { rows: result.map((row) => Object.values(row)), oids };
  },

  async many(step, batch) {
    const result = await written(step)(batch);
    return Array.isArray(result) ? result.reduce((sum, count) => sum + count, 0) : result.rowCount;
  },

  together(step, batch) {
    return this.execute(step, batch);
  },

  again(step, batch) {
    return this.execute(step, batch);
  },

  async cursor(step, values) {
    const rows = [];
    const stream = person().where("name", ">", values[0]).orderBy("id").select("id", "name").stream({ highWaterMark: 2 });
    for await (const row of stream) rows.push(Object.values(row));
    return { rows, oids: [] };
  },

  async begin() {
    outer = await db.transaction();
  },

  commit() {
    const ended = outer;
    outer = null;
    return ended.commit();
  },

  rollback() {
    const ended = outer;
    outer = null;
    return ended.rollback();
  },

  async mark(sql) {
    if (sql.startsWith("SAVEPOINT")) marks.push(await on().transaction());
    else if (sql.startsWith("RELEASE")) await marks.pop().commit();
    else await marks.pop().rollback();
  },
};

run(driver, ["cancelled/cancel"]);
