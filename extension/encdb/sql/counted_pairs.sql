CREATE FUNCTION encdb.regr_count_step(bigint, "any", "any") RETURNS bigint
    AS 'MODULE_PATHNAME', 'encdb_regr_count_step' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
