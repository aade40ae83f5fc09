
-- Equality of det_type. Its cells are deterministic, so that equal values under one key are equal bytes:
-- no key is needed here.

CREATE FUNCTION encdb.det_type_eq(det_type, det_type) RETURNS boolean
    AS 'MODULE_PATHNAME', 'encdb_bytes_eq' LANGUAGE C IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE;
CREATE FUNCTION encdb.det_type_ne(det_type, det_type) RETURNS boolean
    AS 'MODULE_PATHNAME', 'encdb_bytes_ne' LANGUAGE C IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE;
CREATE FUNCTION encdb.det_type_lt(det_type, det_type) RETURNS boolean
    AS 'MODULE_PATHNAME', 'encdb_bytes_lt' LANGUAGE C IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE;
CREATE FUNCTION encdb.det_type_le(det_type, det_type) RETURNS boolean
    AS 'MODULE_PATHNAME', 'encdb_bytes_le' LANGUAGE C IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE;
CREATE FUNCTION encdb.det_type_gt(det_type, det_type) RETURNS boolean
    AS 'MODULE_PATHNAME', 'encdb_bytes_gt' LANGUAGE C IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE;
CREATE FUNCTION encdb.det_type_ge(det_type, det_type) RETURNS boolean
    AS 'MODULE_PATHNAME', 'encdb_bytes_ge' LANGUAGE C IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE;
CREATE FUNCTION encdb.det_type_cmp(det_type, det_type) RETURNS integer
    AS 'MODULE_PATHNAME', 'encdb_bytes_cmp' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION encdb.det_type_hash(det_type) RETURNS integer
    AS 'MODULE_PATHNAME', 'encdb_bytes_hash' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION encdb.det_type_hash(det_type, bigint) RETURNS bigint
    AS 'MODULE_PATHNAME', 'encdb_bytes_hash_extended' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE OPERATOR = (
    LEFTARG = det_type, RIGHTARG = det_type, FUNCTION = encdb.det_type_eq,
    COMMUTATOR = =, NEGATOR = <>, RESTRICT = eqsel, JOIN = eqjoinsel, HASHES, MERGES
);
CREATE OPERATOR <> (
    LEFTARG = det_type, RIGHTARG = det_type, FUNCTION = encdb.det_type_ne,
    COMMUTATOR = <>, NEGATOR = =, RESTRICT = neqsel, JOIN = neqjoinsel
);
-- The order of stored bytes: for unique indexes, under names that nobody writes by mistake.
CREATE OPERATOR ~<~ (
    LEFTARG = det_type, RIGHTARG = det_type, FUNCTION = encdb.det_type_lt,
    COMMUTATOR = ~>~, NEGATOR = ~>=~, RESTRICT = scalarltsel, JOIN = scalarltjoinsel
);
CREATE OPERATOR ~<=~ (
    LEFTARG = det_type, RIGHTARG = det_type, FUNCTION = encdb.det_type_le,
    COMMUTATOR = ~>=~, NEGATOR = ~>~, RESTRICT = scalarlesel, JOIN = scalarlejoinsel
);
CREATE OPERATOR ~>~ (
    LEFTARG = det_type, RIGHTARG = det_type, FUNCTION = encdb.det_type_gt,
    COMMUTATOR = ~<~, NEGATOR = ~<=~, RESTRICT = scalargtsel, JOIN = scalargtjoinsel
);
CREATE OPERATOR ~>=~ (
    LEFTARG = det_type, RIGHTARG = det_type, FUNCTION = encdb.det_type_ge,
    COMMUTATOR = ~<=~, NEGATOR = ~<~, RESTRICT = scalargesel, JOIN = scalargejoinsel
);
CREATE OPERATOR CLASS det_type_ops DEFAULT FOR TYPE det_type USING btree AS
    OPERATOR 1 ~<~, OPERATOR 2 ~<=~, OPERATOR 3 =, OPERATOR 4 ~>=~, OPERATOR 5 ~>~,
    FUNCTION 1 encdb.det_type_cmp(det_type, det_type);
CREATE OPERATOR CLASS det_type_ops DEFAULT FOR TYPE det_type USING hash AS
    OPERATOR 1 =,
    FUNCTION 1 encdb.det_type_hash(det_type),
    FUNCTION 2 encdb.det_type_hash(det_type, bigint);
