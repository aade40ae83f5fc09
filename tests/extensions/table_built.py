"""What test_built.py runs: entries, as table.py has them, of extensions that are built from source."""

from table import COUNT, ROWS, Entry

# pg_squeeze takes the tables that it looks after by their schedule: every minute, if half of their space is free.
SQUEEZED = """
    INSERT INTO squeeze.tables (tabschema, tabname, schedule, min_size, skip_analyze)
        VALUES ('public', 'scheduled', (NULL, NULL, NULL, NULL, NULL), 1, true);"""

ENTRIES = [
    Entry("vector", ROWS + """
        CREATE TABLE v AS SELECT i, word, format('[%s,%s,%s,1]', i, i % 7, i % 11)::vector(4) AS v FROM t;
        CREATE INDEX h ON v USING hnsw (v vector_l2_ops); SET enable_seqscan = off; SET hnsw.ef_search = 500;
        SELECT i FROM v ORDER BY v <-> '[77,3,2,1]' LIMIT 5; DROP INDEX h;
        CREATE INDEX f ON v USING ivfflat (v vector_ip_ops) WITH (lists = 5); SET ivfflat.probes = 5;
        SELECT i FROM v ORDER BY v <#> '[77,3,2,1]' LIMIT 5; CREATE INDEX h ON v USING hnsw (v vector_l2_ops)""",
          """SET enable_seqscan = off; SET hnsw.ef_search = 500; SET ivfflat.probes = 5;
        INSERT INTO v SELECT i + 1000, word, v FROM v WHERE i = 400; DELETE FROM v WHERE i > 1000; VACUUM v;
        SELECT i FROM v ORDER BY v <-> '[177,3,2,1]' LIMIT 5; SELECT i FROM v ORDER BY v <#> '[177,3,2,1]' LIMIT 5;""" + COUNT,
          ("vector",)),
    Entry("timescaledb", """
        CREATE TABLE t (at timestamptz NOT NULL, i int, word text); CREATE INDEX ON t (word);
        SELECT created FROM create_hypertable('t', 'at', chunk_time_interval => interval '1 day');
        INSERT INTO t SELECT '2026-01-01 00:00+00'::timestamptz + i * interval '1 hour', i, '{word}' || i
            FROM generate_series(1, 500) i;
        SELECT count(*) FROM show_chunks('t'); SELECT count(*) FROM drop_chunks('t', '2026-01-03 00:00+00'::timestamptz);
        SELECT time_bucket('5 days', at), count(*), first(i, at), last(word, at) LIKE '{word}%' FROM t GROUP BY 1 ORDER BY 1""",
          """INSERT INTO t SELECT max(at) + interval '1 day', max(i) + 1, '{word}later' FROM t; SELECT count(*) FROM show_chunks('t');
        SELECT time_bucket('5 days', at), count(*), first(i, at), sum(hashtext(word)) FROM t GROUP BY 1 ORDER BY 1""",
          ("timescaledb",), "timescaledb", "timescaledb.telemetry_level = off"),
    Entry("pg_squeeze", ROWS + """ALTER TABLE t ADD PRIMARY KEY (i);
        CREATE TABLE scheduled AS SELECT i, '{word}s' || i AS word FROM generate_series(1, 50000) i;
        ALTER TABLE scheduled ADD PRIMARY KEY (i); DELETE FROM scheduled WHERE i % 4 > 0; DELETE FROM t WHERE i > 100;
        VACUUM scheduled;""" + SQUEEZED + """
        SELECT squeeze.squeeze_table('public', 't'); SELECT squeeze.start_worker(); """ + COUNT,
          "SELECT tabname, ins_initial FROM squeeze.log ORDER BY 1; SELECT count(*), sum(hashtext(word)) FROM scheduled;" + COUNT,
          ("pg_squeeze",), "pg_squeeze", "wal_level = logical\nmax_replication_slots = 8",
          until="SELECT count(*) > 0 FROM squeeze.log WHERE tabname = 'scheduled'"),
    Entry("pg_stat_monitor", ROWS + """SELECT count(*) AS "{word}" FROM t;
        SELECT count(*) > 0 FROM pg_stat_monitor WHERE query LIKE '%AS "{word}"%'""",
          """SELECT count(*) AS "{word}again" FROM t; SELECT count(*) > 0 FROM pg_stat_monitor WHERE query LIKE '%{word}again%';"""
          + COUNT, ("pg_stat_monitor",), "pg_stat_monitor", "pg_stat_monitor.pgsm_enable_query_plan = on"),
    Entry("pg_store_plans", ROWS + """CREATE TABLE "{word}" AS SELECT i FROM t; SELECT count(*) FROM "{word}";
        SELECT count(*) > 0 FROM pg_store_plans WHERE plan LIKE '%{word}%'""",
          """SELECT sum(i) FROM "{word}"; SELECT count(*) > 0 FROM pg_store_plans WHERE plan LIKE '%{word}%';""" + COUNT,
          ("pg_store_plans",), "pg_store_plans", "compute_query_id = on\npg_store_plans.plan_storage = 'file'"),
]
