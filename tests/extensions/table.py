"""What test_extensions.py runs: an entry for each extension, with SQL that puts a canary where the extension keeps its data.

`{word}` means the entry's canary, `{home}` the cluster's directory, which holds the socket, and `{data}` its data
directory. The SQL has to answer the same in a sealed cluster and in its plain reference.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """`use` runs once, `again` after a crash and after a restart, `until` is asked between the two until it says t."""
    name: str
    use: str
    again: str
    create: tuple = ()
    preload: str = ""
    conf: str = ""
    until: str = ""
    clear: str = ""  # files of the sealed cluster that show the canary, by the extension's nature; none without

    def filled(self, sql, words, cluster):
        """The SQL for one cluster."""
        places = {"{word}": words[self.label], "{home}": str(cluster.home), "{data}": str(cluster.data)}
        for name, value in places.items():
            sql = sql.replace(name, value)
        return sql

    @property
    def label(self):
        """Of its canary."""
        return self.name.replace("_", "")


ROWS = "CREATE TABLE t AS SELECT i, '{word}' || i AS word FROM generate_series(1, 500) i; "
COUNT = "SELECT count(*), min(word) LIKE '{word}%', sum(hashtext(word)) FROM t"
# Where pgauditlogtofile puts what pgaudit has to say, in every database.
AUDIT_LOG = r"/data/log/audit-[\d_]+\.log$"

ENTRIES = [
    Entry("pg_stat_kcache", """
        CREATE TABLE t AS SELECT '{word}' AS word; SELECT count(*) AS "{word}" FROM t;
        SELECT count(*) > 0 FROM pg_stat_kcache_detail WHERE query LIKE '%{word}%'""",
          "SELECT count(*) > 0 FROM pg_stat_kcache_detail WHERE query LIKE '%{word}%'; SELECT count(*) AS \"{word}\" FROM t",
          ("pg_stat_statements", "pg_stat_kcache"), "pg_stat_statements, pg_stat_kcache"),
    Entry("pg_qualstats", ROWS + """
        SELECT count(*) FROM t WHERE word = '{word}7';
        SELECT constvalue, occurences, execution_count, nbfiltered FROM pg_qualstats WHERE constvalue LIKE '%{word}%'""",
          "SELECT count(*) FROM t WHERE word = '{word}8'; SELECT constvalue FROM pg_qualstats WHERE constvalue LIKE '%{word}8%'",
          ("pg_qualstats",), "pg_qualstats", "pg_qualstats.sample_rate = 1"),
    Entry("pg_wait_sampling", ROWS + """
        SELECT pg_sleep(0.3); SELECT count(*) > 0 FROM pg_wait_sampling_profile WHERE event = 'PgSleep'""",
          "SELECT pg_sleep(0.3); SELECT count(*) > 0 FROM pg_wait_sampling_history WHERE event = 'PgSleep'",
          ("pg_wait_sampling",), "pg_wait_sampling"),
    Entry("pgaudit", "SET pgaudit.log = 'all'; " + ROWS + COUNT, "SET pgaudit.log = 'all'; " + COUNT, ("pgaudit",), "pgaudit",
          clear=AUDIT_LOG),
    Entry("pgauditlogtofile", "SET pgaudit.log = 'all'; " + ROWS + COUNT, "SET pgaudit.log = 'all'; " + COUNT,
          ("pgauditlogtofile",), "pgauditlogtofile", clear=AUDIT_LOG),
    Entry("plprofiler", ROWS + """
        CREATE FUNCTION f() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN /* {word} */ RETURN (SELECT count(*) FROM t); END';
        SELECT pl_profiler_set_enabled_local(true); SELECT f(); SELECT count(*) > 0 FROM pl_profiler_linestats_local()""",
          COUNT, ("plprofiler",)),
    Entry("pldebugger", ROWS + "SELECT pldbg_create_listener() > 0", COUNT, ("pldbgapi",), "plugin_debugger"),
    Entry("pg_partman", """
        CREATE TABLE p (i int NOT NULL, word text) PARTITION BY RANGE (i);
        SELECT create_parent('public.p', 'i', 'native', '100', p_start_partition => '0');
        INSERT INTO p SELECT i, '{word}' || i FROM generate_series(1, 300) i; CALL run_maintenance_proc();
        SELECT count(*), count(DISTINCT tableoid) FROM p""", "SELECT count(*), count(DISTINCT tableoid) FROM p", ("pg_partman",),
          "pg_partman_bgw",
          "pg_partman_bgw.interval = 1\npg_partman_bgw.dbname = 'pg_partman'\npg_partman_bgw.role = 'postgres'"),
    Entry("orafce", ROWS + """
        SELECT dbms_pipe.pack_message('{word}');
        SELECT dbms_pipe.send_message('p_{word}', 1, 1000); SELECT dbms_pipe.receive_message('p_{word}', 1);
        SELECT dbms_pipe.unpack_message_text() = '{word}'""", COUNT, ("orafce",)),
    Entry("plpgsql_check", ROWS + """
        CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT nothing FROM t); END';
        SELECT plpgsql_check_function('f()')""", COUNT, ("plpgsql_check",)),
    Entry("pgq", """
        SELECT pgq.create_queue('q'); SELECT pgq.register_consumer('q', 'c'); SELECT pgq.insert_event('q', 'kind', '{word}');
        SELECT pgq.force_tick('q'); SELECT pgq.ticker() > 0""",
          "SELECT pgq.next_batch('q', 'c'); SELECT ev_data FROM pgq.get_batch_events((SELECT pgq.next_batch('q', 'c')))",
          ("pgq",)),
    Entry("pg_cron", ROWS + "SELECT count(cron.schedule('* * * * *', 'CREATE TABLE done AS SELECT ''{word}done'' AS word'))",
          "SELECT * FROM done; SELECT command, status FROM cron.job_run_details ORDER BY runid LIMIT 1", ("pg_cron",), "pg_cron",
          "cron.database_name = 'pg_cron'\ncron.use_background_workers = on",
          until="SELECT count(*) > 0 FROM cron.job_run_details WHERE status = 'succeeded'"),
    Entry("powa", ROWS + "SELECT powa_take_snapshot() IS NOT NULL; SELECT count(*) > 0 FROM powa_statements", COUNT,
          ("btree_gist", "pg_stat_statements", "powa"), "powa", "powa.database = 'powa'\npowa.frequency = '-1'"),
    Entry("set_user", ROWS + "CREATE ROLE \"su_{word}\"; SELECT set_user('su_{word}'); SELECT reset_user()", COUNT,
          ("set_user",), "set_user"),
    Entry("wal2json", ROWS + "SELECT slot_name FROM pg_create_logical_replication_slot('json', 'wal2json');"
          "INSERT INTO t VALUES (0, '{word}new'); SELECT data FROM pg_logical_slot_peek_changes('json', NULL, NULL)",
          "SELECT data FROM pg_logical_slot_peek_changes('json', NULL, NULL)"),
    Entry("decoderbufs", ROWS + "SELECT slot_name FROM pg_create_logical_replication_slot('bufs', 'decoderbufs');"
          "INSERT INTO t VALUES (0, '{word}new')",
          "SELECT regexp_matches(data, '{word}new') FROM pg_logical_slot_peek_changes('bufs', NULL, NULL, 'debug-mode', 'on')"),
    Entry("pglogical", ROWS + """ALTER TABLE t ADD PRIMARY KEY (i); CREATE DATABASE subscriber;
        SELECT pglogical.create_node('from', 'host={home} user=postgres dbname=pglogical') > 0;
        SELECT pglogical.replication_set_add_table('default', 't');
\\c subscriber
        CREATE EXTENSION pglogical; SELECT pglogical.create_node('to', 'host={home} user=postgres dbname=subscriber') > 0;
        SELECT pglogical.create_subscription('s', 'host={home} user=postgres dbname=pglogical', '{default}', true) > 0;
        SELECT pglogical.wait_for_subscription_sync_complete('s');""" + COUNT,
          """DELETE FROM t WHERE i > 500; INSERT INTO t SELECT i, '{word}' || i FROM generate_series(501, 600) i;
        SET statement_timeout = '60s';
        SELECT pglogical.wait_slot_confirm_lsn(slot_name, NULL) FROM pg_replication_slots WHERE plugin = 'pglogical_output';
\\c subscriber
        """ + COUNT, ("pglogical",), "pglogical", "wal_level = logical\nmax_replication_slots = 8\ntrack_commit_timestamp = on"),
    Entry("pgfincore", ROWS + """CHECKPOINT; SELECT count(*) FROM t;
        SELECT segment, rel_os_pages, pages_mem > 0 FROM pgfincore('t');
        SELECT rel_os_pages FROM pgfadvise_willneed('t'); SELECT rel_os_pages FROM pgfadvise_dontneed('t');
        SELECT pages_loaded >= 0 FROM pgfadvise_loader('t', 0, true, false, B'1111')""", COUNT, ("pgfincore",)),
    Entry("pg_dirtyread", ROWS + "DELETE FROM t WHERE i > 3; SELECT count(*), count(DISTINCT word) FROM "
          "pg_dirtyread('t') AS t(i int, word text)", "SELECT count(*) FROM t", ("pg_dirtyread",)),
    Entry("rum", """CREATE TABLE t AS SELECT i, 'tale ' || repeat('x ', i % 7) || '{word} n' || i AS word
            FROM generate_series(1, 3000) i;
        ALTER TABLE t ADD v tsvector; UPDATE t SET v = to_tsvector('simple', word);
        CREATE INDEX r ON t USING rum (v rum_tsvector_ops); CREATE INDEX r2 ON t USING rum (v rum_tsvector_addon_ops, i)
            WITH (attach = 'i', to = 'v'); SET enable_seqscan = off;
        SELECT i FROM t WHERE v @@ to_tsquery('simple', '{word} & x')
            ORDER BY v <=> to_tsquery('simple', '{word} & x'), i LIMIT 5;
        SELECT i FROM t WHERE v @@ to_tsquery('simple', '{word}') ORDER BY i <=> 500, i LIMIT 4""",
          """SET enable_seqscan = off;
        INSERT INTO t SELECT i, '', to_tsvector('simple', 'again a{word}') FROM generate_series(1, 50) i;
        SELECT count(*) FROM t WHERE v @@ to_tsquery('simple', 'again'); DELETE FROM t WHERE word = ''; VACUUM t;
        SELECT i FROM t WHERE v @@ to_tsquery('simple', '{word}') ORDER BY i <=> 500, i LIMIT 4""", ("rum",)),
    Entry("postgis", """CREATE TABLE t AS SELECT i, '{word}' || i AS word, ST_MakePoint(i, i % 17)::geometry(point) AS g
            FROM generate_series(1, 3000) i;
        CREATE INDEX ON t USING gist (g); SET enable_seqscan = off; SELECT count(*) FROM t WHERE ST_DWithin(g, 'POINT(9 9)', 40);
        SELECT ST_AsText(ST_Transform('SRID=4326;POINT(7 51)'::geometry, 25832), 1)""",
          "SET enable_seqscan = off; SELECT count(*), min(word) LIKE '{word}%' FROM t WHERE ST_DWithin(g, 'POINT(9 9)', 40)",
          ("postgis", "postgis_topology")),
    Entry("postgis_raster", """SET postgis.gdal_enabled_drivers = 'ENABLE_ALL'; SET postgis.enable_outdb_rasters = on;
        CREATE TABLE t AS SELECT '{word}' AS word, ST_AddBand(ST_MakeEmptyRaster(64, 64, 0, 0, 1), '8BUI'::text, 7, 0) AS r;
        CREATE TABLE gdal AS SELECT ST_AsGDALRaster(r, 'GTiff') AS b FROM t; SELECT md5(b) FROM gdal;
        SELECT (ST_SummaryStats(ST_FromGDALRaster(b))).sum FROM gdal;
        SELECT lo_from_bytea(4711, b) FROM gdal; SELECT lo_export(4711, '{home}/out.tif');
        SELECT (ST_SummaryStats(ST_AddBand(ST_MakeEmptyRaster(64, 64, 0, 0, 1, -1, 0, 0, 0), 1, '{home}/out.tif',
            NULL::int[]))).sum""",
          "SELECT (ST_SummaryStats(r)).sum FROM t", ("postgis", "postgis_raster")),
    Entry("pgrouting", """CREATE TABLE t AS SELECT i AS id, i AS source, i + 1 AS target, 1.0::float8 AS cost, '{word}' AS word
            FROM generate_series(1, 500) i;
        SELECT count(*), sum(cost) FROM pgr_dijkstra('SELECT id, source, target, cost FROM t', 3, 80)""",
          "SELECT count(*), sum(cost) FROM pgr_dijkstra('SELECT id, source, target, cost FROM t', 3, 80)",
          ("postgis", "pgrouting")),
    Entry("ogr_fdw", """COPY (SELECT i, '{word}' || i AS word FROM generate_series(1, 30) i)
            TO '{home}/o.csv' (FORMAT csv, HEADER);
        CREATE SERVER o FOREIGN DATA WRAPPER ogr_fdw OPTIONS (datasource '{home}/o.csv', format 'CSV');
        IMPORT FOREIGN SCHEMA ogr_all FROM SERVER o INTO public; SELECT count(*), min(word) FROM o;
        CREATE TABLE t AS SELECT * FROM o""",
          "SELECT count(*) FROM o; SELECT count(*) FROM t", ("ogr_fdw",)),
    Entry("plpython3u", ROWS + """
        CREATE FUNCTION py() RETURNS text LANGUAGE plpython3u AS $$
            import subprocess
            plpy.execute("SELECT count(*) FROM t")
            return subprocess.run(["sh", "-c", "echo child"], capture_output=True, text=True).stdout $$;
        SELECT py()""", COUNT + "; SELECT py()", ("plpython3u",)),
    Entry("plperlu", ROWS + """
        CREATE FUNCTION pl() RETURNS text LANGUAGE plperlu AS $$
            return `echo child` . spi_exec_query("SELECT count(*) FROM t")->{rows}[0]{count} $$;
        SELECT pl()""", COUNT + "; SELECT pl()", ("plperlu",)),
    Entry("pltclu", ROWS + """
        CREATE FUNCTION tc() RETURNS text LANGUAGE pltclu AS $$
            spi_exec "SELECT count(*) AS n FROM t"; return "[exec echo child] $n" $$;
        SELECT tc()""", COUNT + "; SELECT tc()", ("pltclu",)),
    Entry("plsh", ROWS + """
        CREATE FUNCTION sh(text) RETURNS text LANGUAGE plsh AS $$
#!/bin/sh
echo "child of $1"
$$; SELECT sh(word) FROM t WHERE i = 5""", COUNT + "; SELECT sh(word) FROM t WHERE i = 6", ("plsh",)),
    Entry("pllua", ROWS + """CREATE FUNCTION lu(text) RETURNS text LANGUAGE plluau AS $$ return string.upper(...) $$;
        SELECT lu(word) FROM t WHERE i = 5""", COUNT + "; SELECT lu('x')", ("pllua", "plluau")),
    Entry("hypopg", ROWS + """ANALYZE t; SELECT count(*) FROM hypopg_create_index('CREATE INDEX ON t (word)');
        SET enable_seqscan = off; EXPLAIN (COSTS off) SELECT * FROM t WHERE word = 'a';
        SELECT hypopg_reset()""", COUNT, ("hypopg",)),
    Entry("hll", ROWS + "CREATE TABLE h AS SELECT hll_add_agg(hll_hash_text(word)) AS h FROM t;"
          "SELECT hll_cardinality(h)::int FROM h",
          "SELECT hll_cardinality(h)::int FROM h", ("hll",)),
    Entry("ip4r", ROWS + """CREATE TABLE a AS SELECT ('10.0.' || i % 256 || '.0/24')::ip4r AS a, word FROM t;
        CREATE INDEX ON a USING gist (a); SET enable_seqscan = off; SELECT count(*) FROM a WHERE a >>= ip4 '10.0.7.1'""",
          "SET enable_seqscan = off; SELECT count(*) FROM a WHERE a >>= ip4 '10.0.7.1'", ("ip4r",)),
    Entry("tdigest", ROWS + "SELECT tdigest_percentile(i, 100, 0.5) FROM t", "SELECT tdigest_percentile(i, 100, 0.5) FROM t",
          ("tdigest",)),
    Entry("pgtap", ROWS + "SELECT plan(2); SELECT has_table('t'); SELECT is(count(*), 500::bigint) FROM t;"
          "SELECT * FROM finish()",
          COUNT, ("pgtap",)),
    Entry("table_log", """CREATE TABLE t (i int PRIMARY KEY, word text); SELECT table_log_init(5, 't');
        INSERT INTO t VALUES (1, '{word}'); UPDATE t SET word = '{word}b';
        SELECT trigger_mode, trigger_tuple, word FROM t_log ORDER BY trigger_id""",
          "SELECT trigger_mode, word FROM t_log ORDER BY trigger_id", ("table_log",)),
    Entry("periods", """CREATE TABLE t (i int PRIMARY KEY, word text); SELECT periods.add_system_time_period('t');
        SELECT periods.add_system_versioning('t');
        INSERT INTO t VALUES (1, '{word}a'); UPDATE t SET word = '{word}b'; DELETE FROM t;
        SELECT word FROM t_history ORDER BY word""", "SELECT word FROM t_history ORDER BY word", ("btree_gist", "periods")),
    Entry("q3c", """CREATE TABLE t AS SELECT i * 0.7 AS ra, i * 0.1 AS dec, '{word}' AS word FROM generate_series(1, 500) i;
        CREATE INDEX ON t (q3c_ang2ipix(ra, dec)); SELECT count(*) FROM t WHERE q3c_radial_query(ra, dec, 70, 10, 3)""",
          "SELECT count(*) FROM t WHERE q3c_radial_query(ra, dec, 70, 10, 3)", ("q3c",)),
    Entry("londiste", ROWS + "SELECT ret_code FROM pgq_node.register_location('q', 'n', 'dbname={word}', false)",
          "SELECT node_location FROM pgq_node.node_location", ("pgq", "pgq_node", "londiste")),
    Entry("pgagent", ROWS + "INSERT INTO pgagent.pga_job (jobjclid, jobname) VALUES (1, '{word}');"
          "SELECT count(*) FROM pgagent.pga_job",
          "SELECT jobname FROM pgagent.pga_job", ("pgagent",)),
    Entry("jsquery", """CREATE TABLE t AS SELECT jsonb_build_object('w', '{word}' || i, 'i', i) AS j
            FROM generate_series(1, 500) i; CREATE INDEX ON t USING gin (j jsonb_path_value_ops);
        SET enable_seqscan = off; SELECT count(*) FROM t WHERE j @@ 'i > 490'::jsquery""",
          "SET enable_seqscan = off; SELECT count(*) FROM t WHERE j @@ 'i > 490'::jsquery", ("jsquery",)),
    Entry("prefix", ROWS + """CREATE TABLE p AS SELECT ('0' || i)::prefix_range AS p, word FROM t;
        CREATE INDEX ON p USING gist (p);
        SET enable_seqscan = off; SELECT p FROM p WHERE p @> '0123' ORDER BY p""",
          "SET enable_seqscan = off; SELECT p FROM p WHERE p @> '0123' ORDER BY p", ("prefix",)),
    Entry("toastinfo", """CREATE TABLE t (w text); ALTER TABLE t ALTER w SET STORAGE external;
        INSERT INTO t SELECT repeat('{word}', 2000); SELECT pg_toastinfo(w) FROM t""",
          "SELECT length(w), pg_toastinfo(w) FROM t", ("toastinfo",)),
    Entry("pg_track_settings", ROWS + "SELECT pg_track_settings_snapshot(); SELECT count(*) > 0 FROM pg_track_settings('now')",
          COUNT, ("pg_track_settings",)),
    Entry("plproxy", ROWS + """CREATE FUNCTION many() RETURNS SETOF bigint LANGUAGE plproxy AS
        $$ CONNECT 'dbname=plproxy host={home} user=postgres'; SELECT count(*) FROM t; $$; SELECT * FROM many()""",
          COUNT + "; SELECT * FROM many()", ("plproxy",)),
]
