
-- Search by words and by trigrams

CREATE FUNCTION encdb.enc_text_has_words(enc_text, enc_text) RETURNS boolean
    AS 'MODULE_PATHNAME', 'encdb_has_words' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20;
CREATE OPERATOR @@ (
    LEFTARG = enc_text, RIGHTARG = enc_text, FUNCTION = encdb.enc_text_has_words,
    RESTRICT = matchingsel, JOIN = matchingjoinsel
);

CREATE FUNCTION encdb.words_of_value(enc_text, internal, internal) RETURNS internal
    AS 'MODULE_PATHNAME', 'encdb_words_of_value' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20;
CREATE FUNCTION encdb.words_of_query(enc_text, internal, smallint, internal, internal, internal, internal) RETURNS internal
    AS 'MODULE_PATHNAME', 'encdb_words_of_query' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20;
CREATE FUNCTION encdb.trigrams_of_value(enc_text, internal, internal) RETURNS internal
    AS 'MODULE_PATHNAME', 'encdb_trigrams_of_value' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20;
CREATE FUNCTION encdb.trigrams_of_pattern(enc_text, internal, smallint, internal, internal, internal, internal) RETURNS internal
    AS 'MODULE_PATHNAME', 'encdb_trigrams_of_pattern' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20;
CREATE FUNCTION encdb.tokens_consistent(internal, smallint, enc_text, integer, internal, internal, internal, internal) RETURNS boolean
    AS 'MODULE_PATHNAME', 'encdb_tokens_consistent' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION encdb.tokens_triconsistent(internal, smallint, enc_text, integer, internal, internal, internal) RETURNS "char"
    AS 'MODULE_PATHNAME', 'encdb_tokens_triconsistent' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE OPERATOR CLASS enc_text_words_ops FOR TYPE enc_text USING gin AS
    OPERATOR 1 @@ (enc_text, enc_text),
    FUNCTION 1 btint8cmp(bigint, bigint),
    FUNCTION 2 encdb.words_of_value(enc_text, internal, internal),
    FUNCTION 3 encdb.words_of_query(enc_text, internal, smallint, internal, internal, internal, internal),
    FUNCTION 4 encdb.tokens_consistent(internal, smallint, enc_text, integer, internal, internal, internal, internal),
    FUNCTION 6 encdb.tokens_triconsistent(internal, smallint, enc_text, integer, internal, internal, internal),
    STORAGE bigint;
CREATE OPERATOR CLASS enc_text_trgm_ops FOR TYPE enc_text USING gin AS
    OPERATOR 1 ~~ (enc_text, enc_text),
    OPERATOR 2 ~~* (enc_text, enc_text),
    FUNCTION 1 btint8cmp(bigint, bigint),
    FUNCTION 2 encdb.trigrams_of_value(enc_text, internal, internal),
    FUNCTION 3 encdb.trigrams_of_pattern(enc_text, internal, smallint, internal, internal, internal, internal),
    FUNCTION 4 encdb.tokens_consistent(internal, smallint, enc_text, integer, internal, internal, internal, internal),
    FUNCTION 6 encdb.tokens_triconsistent(internal, smallint, enc_text, integer, internal, internal, internal),
    STORAGE bigint;
