// node-postgres. Usage: with_pg.js CONFIG

const { Client } = require("pg");
const Cursor = require("pg-cursor");
const { connection, run } = require("./interpreter");

const driver = {
  async connect(config) {
    this.through = await connection(config);
    this.config = this.through.config;
    this.client = new Client(this.config);
    await this.client.connect();
  },

  async close() {
    await this.client.end();
    await this.through.stop();
  },

  async query(query) {
    const result = await this.client.query({ rowMode: "array", ...query });
    return { rows: result.rows, count: result.rowCount, oids: result.fields.map((field) => field.dataTypeID) };
  },

  execute({ sql }, values) {
    return this.query(values.length ? { text: sql, values } : { text: sql });
  },

  // node-postgres has no pipeline: statements that are not waited for queue up in it.
  async many({ sql }, batch) {
    const results = await Promise.all(batch.map((values) => this.query({ text: sql, values })));
    return results.reduce((sum, result) => sum + result.count, 0);
  },

  async all(queries) {
    const results = await Promise.all(queries.map((query) => this.query(query)));
    return { rows: results.flatMap((result) => result.rows), oids: results[0].oids };
  },

  together({ sql }, batch) {
    return this.all(batch.map((values) => ({ text: sql, values })));
  },

  again({ sql, full }, batch) {
    return this.all(batch.map((values) => ({ name: full, text: sql, values })));
  },

  async cursor({ sql }, values) {
    const cursor = this.client.query(new Cursor(sql, values, { rowMode: "array" }));
    const rows = [];
    for (let read = await cursor.read(2); read.length > 0; read = await cursor.read(2)) rows.push(...read);
    await cursor.close();
    return { rows, oids: [23, 25] };
  },

  begin() {
    return this.client.query("BEGIN");
  },

  commit() {
    return this.client.query("COMMIT");
  },

  rollback() {
    return this.client.query("ROLLBACK");
  },

  mark(sql) {
    return this.client.query(sql);
  },

  // By another connection: the driver does not export its request to cancel.
  async cancel(step, values) {
    const other = new Client(this.config);
    await other.connect();
    const pause = new Promise((resolve) => setTimeout(resolve, 300));
    const asked = pause.then(() => other.query("SELECT pg_cancel_backend($1)", [this.client.processID]));
    try {
      return await this.execute(step, values);
    } finally {
      await asked;
      await other.end();
    }
  },
};

run(driver);
