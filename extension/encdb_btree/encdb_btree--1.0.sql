-- encdb_btree: ordered indexes on encrypted columns answer a page per request.
--
-- The indexes stay PostgreSQL's own; encdb sees that this extension is here and compares through it.

\echo Use "CREATE EXTENSION encdb_btree" to load this file. \quit

-- What this session has saved: pages that were asked for, and comparisons that they answered.
CREATE FUNCTION encdb.page_statistics(OUT requests bigint, OUT answered bigint) RETURNS record
    AS 'MODULE_PATHNAME', 'encdb_btree_statistics' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
