-- encdb: columns that the server cannot read.
--
-- Types, operators and aggregates are in the extension's schema; what they are made of, and the
-- functions that keys and sessions need, in the schema encdb.

\echo Use "CREATE EXTENSION encdb" to load this file. \quit

CREATE SCHEMA encdb;
GRANT USAGE ON SCHEMA encdb TO PUBLIC;

-- Data keys, wrapped under their owners' master keys, which are never here.
CREATE TABLE encdb.data_key (
    keyname text PRIMARY KEY,
    key_id bigint NOT NULL UNIQUE,
    deterministic boolean NOT NULL,
    wrapped bytea NOT NULL,
    created timestamptz NOT NULL DEFAULT now()
);

-- Grants, and lists of those that were revoked, as their owners signed them: kept here for clients,
-- which show them to the evaluator when they open a session. To change a row makes it invalid, and to
-- remove one takes a right away, or gives none back that the evaluator knows to be revoked.
CREATE TABLE encdb.grant_ (
    serial bytea PRIMARY KEY,
    owner bytea NOT NULL,
    subject bytea NOT NULL,
    signed bytea NOT NULL,
    created timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE encdb.revocation (
    owner bytea PRIMARY KEY,
    sequence bigint NOT NULL,
    signed bytea NOT NULL,
    created timestamptz NOT NULL DEFAULT now()
);

-- Nothing in these tables is secret: what is wrapped opens under a master key only.
GRANT SELECT ON encdb.data_key, encdb.grant_, encdb.revocation TO PUBLIC;
SELECT pg_catalog.pg_extension_config_dump('encdb.data_key', '');
SELECT pg_catalog.pg_extension_config_dump('encdb.grant_', '');
SELECT pg_catalog.pg_extension_config_dump('encdb.revocation', '');

CREATE FUNCTION encdb.grant_insert(signed bytea) RETURNS bytea
    AS 'MODULE_PATHNAME', 'encdb_grant_insert' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
CREATE FUNCTION encdb.revocation_insert(signed bytea) RETURNS bigint
    AS 'MODULE_PATHNAME', 'encdb_revocation_insert' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

-- What client and evaluator say to each other; the server only relays it.
CREATE FUNCTION encdb.process_message(message bytea) RETURNS bytea
    AS 'MODULE_PATHNAME', 'encdb_process_message' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
CREATE FUNCTION encdb_process_message(message bytea) RETURNS bytea
    AS 'MODULE_PATHNAME', 'encdb_process_message' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
CREATE FUNCTION encdb.database_id() RETURNS bytea
    AS 'MODULE_PATHNAME', 'encdb_database_id' LANGUAGE C STABLE STRICT PARALLEL SAFE;
-- How many requests this session has made of the evaluator's process; inline there are none.
CREATE FUNCTION encdb.requests() RETURNS bigint
    AS 'MODULE_PATHNAME', 'encdb_requests' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
-- What this session has saved: pages that were asked for, and comparisons that they answered.
CREATE FUNCTION encdb.page_statistics(OUT requests bigint, OUT answered bigint) RETURNS record
    AS 'MODULE_PATHNAME', 'encdb_page_statistics' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

-- Names of keys: |user|database|schema|table|column|, as far as they are given.
CREATE FUNCTION encdb.keyname_generate(username text, database text, schema text DEFAULT NULL,
                                       tablename text DEFAULT NULL, columnname text DEFAULT NULL)
    RETURNS text LANGUAGE SQL IMMUTABLE PARALLEL SAFE
    AS $$ SELECT '|' OPERATOR(pg_catalog.||) pg_catalog.concat_ws('|', username, database, schema, tablename, columnname)
        OPERATOR(pg_catalog.||) '|' $$;
CREATE FUNCTION encdb.default_keyname() RETURNS text
    AS 'MODULE_PATHNAME', 'encdb_keyname' LANGUAGE C STABLE STRICT PARALLEL RESTRICTED;

CREATE FUNCTION encdb.generate_key(keyname text, deterministic boolean, key_group integer) RETURNS bigint
    AS 'MODULE_PATHNAME', 'encdb_generate_key' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
CREATE FUNCTION encdb.dek_insert(keyname text, wrapped bytea) RETURNS bigint
    AS 'MODULE_PATHNAME', 'encdb_dek_insert' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
-- Options: flags RND (default) or DET, group (of grants); algorithm and policy have one value each.
CREATE FUNCTION encdb.dek_generate(keyname text, options jsonb DEFAULT '{}') RETURNS bigint
    LANGUAGE SQL VOLATILE STRICT PARALLEL UNSAFE
    AS $$ SELECT encdb.generate_key(keyname,
                                    coalesce(options OPERATOR(pg_catalog.->>) 'flags', 'RND')
                                        OPERATOR(pg_catalog.=) 'DET',
                                    coalesce((options OPERATOR(pg_catalog.->>) 'group')::integer, 0)) $$;

CREATE FUNCTION encdb.typanalyze(internal) RETURNS boolean
    AS 'MODULE_PATHNAME', 'encdb_typanalyze' LANGUAGE C VOLATILE STRICT;
CREATE FUNCTION encdb.range_selectivity(internal, oid, internal, integer) RETURNS double precision
    AS 'MODULE_PATHNAME', 'encdb_range_selectivity' LANGUAGE C STABLE STRICT PARALLEL SAFE;
-- Counts the distinct values of a table's encrypted columns in a sample, and sets n_distinct, which is plain.
CREATE FUNCTION encdb.estimate_distinct(table_name regclass, OUT column_name name, OUT n_distinct real)
    RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'encdb_estimate_distinct' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
CREATE FUNCTION encdb.equal_selectivity(internal, oid, internal, integer) RETURNS double precision
    AS 'MODULE_PATHNAME', 'encdb_equal_selectivity' LANGUAGE C STABLE STRICT PARALLEL SAFE;
-- Makes an index serve a comparison with a plain value.
CREATE FUNCTION encdb.plain_support(internal) RETURNS internal
    AS 'MODULE_PATHNAME', 'encdb_plain_support' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION encdb.sortsupport(internal) RETURNS void
    AS 'MODULE_PATHNAME', 'encdb_sortsupport' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
-- Makes one call of operators and casts one on another, when a query is planned.
CREATE FUNCTION encdb.compile(internal) RETURNS internal
    AS 'MODULE_PATHNAME', 'encdb_compile' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
-- Raises when a query is planned that casts an encrypted type to a plain one.
CREATE FUNCTION encdb.refuse_cast(internal) RETURNS internal
    AS 'MODULE_PATHNAME', 'encdb_refuse_plan' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION encdb.aggregate_combine(internal, internal) RETURNS internal
    AS 'MODULE_PATHNAME', 'encdb_aggregate_combine' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION encdb.aggregate_serialize(internal) RETURNS bytea
    AS 'MODULE_PATHNAME', 'encdb_aggregate_serialize' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION encdb.aggregate_deserialize(bytea, internal) RETURNS internal
    AS 'MODULE_PATHNAME', 'encdb_aggregate_deserialize' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
