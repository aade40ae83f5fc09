
-- Percentiles between values

CREATE FUNCTION encdb.percentile_step(internal, "any") RETURNS internal
    AS 'MODULE_PATHNAME', 'encdb_percentile_step' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 10;
CREATE FUNCTION encdb.percentile_cont_final(internal, double precision) RETURNS enc_float8
    AS 'MODULE_PATHNAME', 'encdb_percentile_cont' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 20;
CREATE FUNCTION encdb.percentiles_cont_final(internal, double precision[]) RETURNS enc_float8[]
    AS 'MODULE_PATHNAME', 'encdb_percentiles_cont' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 20;
