
-- Compiled expressions

-- What encdb.compile makes of operators and casts one on another, as EXPLAIN shows it: in postfix order a sign for each step,
-- "$" for the next operand, a letter for a cast. No statement can call it.
CREATE FUNCTION encdb.computed(program text, VARIADIC operands "any") RETURNS rnd_type
    AS 'MODULE_PATHNAME', 'encdb_computed' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 20 SUPPORT encdb.compile;
-- The same with casts that are stable.
CREATE FUNCTION encdb.computed_stable(program text, VARIADIC operands "any") RETURNS rnd_type
    AS 'MODULE_PATHNAME', 'encdb_computed' LANGUAGE C STABLE PARALLEL SAFE COST 20 SUPPORT encdb.compile;

-- A plain value in a condition of an index. No statement can call it.
CREATE FUNCTION encdb.plain_operand("any") RETURNS rnd_type
    AS 'MODULE_PATHNAME', 'encdb_plain_operand_of' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
