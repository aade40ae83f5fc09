\echo Use "CREATE EXTENSION pgseal" to load this file. \quit

-- The columns stand in the order in which the library gives them. Times are seconds since 1970 there.

CREATE FUNCTION pgseal_status_rows(
    OUT sealed boolean, OUT key_id text, OUT cluster_id text, OUT suite text, OUT key_bits integer, OUT created bigint,
    OUT opened_by_slot integer, OUT opened_by text, OUT key_file text, OUT library_version text, OUT restart_pending boolean,
    OUT log_lines bigint)
RETURNS SETOF record LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'pgseal_status';

CREATE VIEW pgseal_status AS
    SELECT coalesce(s.sealed, false) AS sealed, s.key_id, s.cluster_id, s.suite, s.key_bits,
           to_timestamp(s.created) AS sealed_since, pg_postmaster_start_time() AS running_since,
           s.opened_by_slot, s.opened_by, s.key_file, s.library_version, s.restart_pending, s.log_lines
    FROM (VALUES (1)) AS one LEFT JOIN pgseal_status_rows() AS s ON true;
COMMENT ON VIEW pgseal_status IS 'whether this cluster is encrypted, under which key, and by which version';

CREATE FUNCTION pgseal_slots_rows(
    OUT slot integer, OUT kind text, OUT label text, OUT opened_server boolean, OUT provider_key text,
    OUT created bigint, OUT created_by text, OUT proved bigint, OUT proved_by text)
RETURNS SETOF record LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'pgseal_slots';

CREATE VIEW pgseal_slots AS
    SELECT slot, kind, label, opened_server, provider_key, to_timestamp(created) AS created_at, created_by,
           to_timestamp(proved) AS proved_at, proved_by
    FROM pgseal_slots_rows();
COMMENT ON VIEW pgseal_slots IS 'the key slots of this cluster';

CREATE FUNCTION pgseal_io_rows(
    OUT object text, OUT pages_read bigint, OUT pages_written bigint, OUT bytes_read bigint, OUT bytes_written bigint,
    OUT read_ns bigint, OUT write_ns bigint, OUT files_opened bigint, OUT zero_pages_written bigint)
RETURNS SETOF record LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'pgseal_io';

CREATE VIEW pgseal_io AS
    SELECT object, files_opened, pages_read, bytes_read, read_ns / 1e6::double precision AS decrypt_time,
           pages_written, bytes_written, write_ns / 1e6::double precision AS encrypt_time, zero_pages_written
    FROM pgseal_io_rows();
COMMENT ON VIEW pgseal_io IS 'what went through encryption since the server started; times in milliseconds, with track_io_timing';

CREATE FUNCTION pgseal_receivers_rows(OUT pid integer, OUT receives text, OUT token_id text, OUT expires bigint)
RETURNS SETOF record LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'pgseal_receivers';

CREATE VIEW pgseal_receivers AS
    SELECT r.pid, a.usename, a.application_name, a.client_addr, a.backend_type, a.backend_start,
           CASE r.receives WHEN 'raw' THEN 'stored bytes' ELSE 'clear pages' END AS receives,
           r.token_id, to_timestamp(r.expires) AS expires_at
    FROM pgseal_receivers_rows() AS r
    JOIN pg_stat_activity AS a ON a.pid = r.pid AND a.backend_type IN ('client backend', 'walsender');
COMMENT ON VIEW pgseal_receivers IS 'connections that showed a receiver token, or that take what is stored';

CREATE FUNCTION pgseal_files(OUT path text, OUT size bigint, OUT reason text)
RETURNS SETOF record LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'pgseal_files';
COMMENT ON FUNCTION pgseal_files() IS 'files of this cluster that are stored in clear, and why';

REVOKE ALL ON FUNCTION pgseal_status_rows(), pgseal_slots_rows(), pgseal_io_rows(), pgseal_receivers_rows(), pgseal_files()
    FROM PUBLIC;
GRANT EXECUTE ON FUNCTION pgseal_status_rows(), pgseal_slots_rows(), pgseal_io_rows(), pgseal_receivers_rows(), pgseal_files()
    TO pg_monitor;
GRANT SELECT ON pgseal_status, pgseal_slots, pgseal_io, pgseal_receivers TO pg_monitor;
