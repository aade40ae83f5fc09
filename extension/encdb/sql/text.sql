
-- Text

CREATE FUNCTION encdb.enc_text_concat(enc_text, enc_text) RETURNS enc_text
    AS 'MODULE_PATHNAME', 'encdb_concat' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;
CREATE OPERATOR || (LEFTARG = enc_text, RIGHTARG = enc_text, FUNCTION = encdb.enc_text_concat);

-- Makes a B-tree serve LIKE 'abc%'. No statement can call the other ones.
CREATE FUNCTION encdb.pattern_support(internal) RETURNS internal
    AS 'MODULE_PATHNAME', 'encdb_pattern_support' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION encdb.prefix_low(enc_text) RETURNS rnd_type
    AS 'MODULE_PATHNAME', 'encdb_prefix_low' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION encdb.prefix_high(enc_text) RETURNS rnd_type
    AS 'MODULE_PATHNAME', 'encdb_prefix_high' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION encdb.enc_text_like(enc_text, enc_text) RETURNS boolean
    AS 'MODULE_PATHNAME', 'encdb_like' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.pattern_support;
CREATE FUNCTION encdb.enc_text_nlike(enc_text, enc_text) RETURNS boolean
    AS 'MODULE_PATHNAME', 'encdb_nlike' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20;
CREATE FUNCTION encdb.enc_text_ilike(enc_text, enc_text) RETURNS boolean
    AS 'MODULE_PATHNAME', 'encdb_ilike' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20;
CREATE FUNCTION encdb.enc_text_nilike(enc_text, enc_text) RETURNS boolean
    AS 'MODULE_PATHNAME', 'encdb_nilike' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20;
CREATE OPERATOR ~~ (
    LEFTARG = enc_text, RIGHTARG = enc_text, FUNCTION = encdb.enc_text_like,
    NEGATOR = !~~, RESTRICT = likesel, JOIN = likejoinsel
);
CREATE OPERATOR !~~ (
    LEFTARG = enc_text, RIGHTARG = enc_text, FUNCTION = encdb.enc_text_nlike,
    NEGATOR = ~~, RESTRICT = nlikesel, JOIN = nlikejoinsel
);
CREATE OPERATOR ~~* (
    LEFTARG = enc_text, RIGHTARG = enc_text, FUNCTION = encdb.enc_text_ilike,
    NEGATOR = !~~*, RESTRICT = iclikesel, JOIN = iclikejoinsel
);
CREATE OPERATOR !~~* (
    LEFTARG = enc_text, RIGHTARG = enc_text, FUNCTION = encdb.enc_text_nilike,
    NEGATOR = ~~*, RESTRICT = icnlikesel, JOIN = icnlikejoinsel
);

CREATE FUNCTION encdb.compile_similar(internal) RETURNS internal
    AS 'MODULE_PATHNAME', 'encdb_compile_similar' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION encdb.enc_text_similar(enc_text, enc_text) RETURNS boolean
    AS 'MODULE_PATHNAME', 'encdb_similar' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20;
CREATE FUNCTION encdb.enc_text_nsimilar(enc_text, enc_text) RETURNS boolean
    AS 'MODULE_PATHNAME', 'encdb_nsimilar' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20;
CREATE FUNCTION encdb.enc_text_regex(enc_text, enc_text) RETURNS boolean
    AS 'MODULE_PATHNAME', 'encdb_regex' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile_similar;
CREATE FUNCTION encdb.enc_text_nregex(enc_text, enc_text) RETURNS boolean
    AS 'MODULE_PATHNAME', 'encdb_nregex' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile_similar;
CREATE FUNCTION encdb.enc_text_iregex(enc_text, enc_text) RETURNS boolean
    AS 'MODULE_PATHNAME', 'encdb_iregex' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20;
CREATE FUNCTION encdb.enc_text_niregex(enc_text, enc_text) RETURNS boolean
    AS 'MODULE_PATHNAME', 'encdb_niregex' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20;
CREATE OPERATOR ~ (
    LEFTARG = enc_text, RIGHTARG = enc_text, FUNCTION = encdb.enc_text_regex,
    NEGATOR = !~, RESTRICT = regexeqsel, JOIN = regexeqjoinsel
);
CREATE OPERATOR !~ (
    LEFTARG = enc_text, RIGHTARG = enc_text, FUNCTION = encdb.enc_text_nregex,
    NEGATOR = ~, RESTRICT = regexnesel, JOIN = regexnejoinsel
);
CREATE OPERATOR ~* (
    LEFTARG = enc_text, RIGHTARG = enc_text, FUNCTION = encdb.enc_text_iregex,
    NEGATOR = !~*, RESTRICT = icregexeqsel, JOIN = icregexeqjoinsel
);
CREATE OPERATOR !~* (
    LEFTARG = enc_text, RIGHTARG = enc_text, FUNCTION = encdb.enc_text_niregex,
    NEGATOR = ~*, RESTRICT = icregexnesel, JOIN = icregexnejoinsel
);

-- SUBSTRING(x FROM a FOR b) is a call of pg_catalog.substring, LIKE ... ESCAPE one of
-- pg_catalog.like_escape, SIMILAR TO one of pg_catalog.similar_to_escape, and EXTRACT one of pg_catalog.extract: the parser says so, whatever the search
-- path is.
CREATE FUNCTION pg_catalog.like_escape(enc_text, text) RETURNS enc_text
    AS 'MODULE_PATHNAME', 'encdb_like_escape' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20;
-- STABLE, so that it is there when the call that it is an argument of is compiled.
CREATE FUNCTION pg_catalog.similar_to_escape(enc_text) RETURNS enc_text
    AS 'MODULE_PATHNAME', 'encdb_similar_to_escape' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;
CREATE FUNCTION pg_catalog.similar_to_escape(enc_text, text) RETURNS enc_text
    AS 'MODULE_PATHNAME', 'encdb_similar_to_escape' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;
CREATE FUNCTION pg_catalog.substring(enc_text, integer) RETURNS enc_text
    AS 'MODULE_PATHNAME', 'encdb_substring' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;
CREATE FUNCTION pg_catalog.substring(enc_text, integer, integer) RETURNS enc_text
    AS 'MODULE_PATHNAME', 'encdb_substring' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;
CREATE FUNCTION substr(enc_text, integer) RETURNS enc_text
    AS 'MODULE_PATHNAME', 'encdb_substring' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;
CREATE FUNCTION substr(enc_text, integer, integer) RETURNS enc_text
    AS 'MODULE_PATHNAME', 'encdb_substring' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;
CREATE FUNCTION lower(enc_text) RETURNS enc_text
    AS 'MODULE_PATHNAME', 'encdb_lower' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;
CREATE FUNCTION upper(enc_text) RETURNS enc_text
    AS 'MODULE_PATHNAME', 'encdb_upper' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;
CREATE FUNCTION length(enc_text) RETURNS enc_int4
    AS 'MODULE_PATHNAME', 'encdb_length' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;
CREATE FUNCTION char_length(enc_text) RETURNS enc_int4
    AS 'MODULE_PATHNAME', 'encdb_length' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;

CREATE FUNCTION initcap(enc_text) RETURNS enc_text
    AS 'MODULE_PATHNAME', 'encdb_initcap' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;
CREATE FUNCTION "left"(enc_text, integer) RETURNS enc_text
    AS 'MODULE_PATHNAME', 'encdb_left' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;
CREATE FUNCTION "right"(enc_text, integer) RETURNS enc_text
    AS 'MODULE_PATHNAME', 'encdb_right' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;
CREATE FUNCTION reverse(enc_text) RETURNS enc_text
    AS 'MODULE_PATHNAME', 'encdb_reverse' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;
CREATE FUNCTION repeat(enc_text, integer) RETURNS enc_text
    AS 'MODULE_PATHNAME', 'encdb_repeat' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;
CREATE FUNCTION lpad(enc_text, integer) RETURNS enc_text
    AS 'MODULE_PATHNAME', 'encdb_lpad' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;
CREATE FUNCTION lpad(enc_text, integer, text) RETURNS enc_text
    AS 'MODULE_PATHNAME', 'encdb_lpad' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;
CREATE FUNCTION rpad(enc_text, integer) RETURNS enc_text
    AS 'MODULE_PATHNAME', 'encdb_rpad' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;
CREATE FUNCTION rpad(enc_text, integer, text) RETURNS enc_text
    AS 'MODULE_PATHNAME', 'encdb_rpad' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;
CREATE FUNCTION starts_with(enc_text, enc_text) RETURNS boolean
    AS 'MODULE_PATHNAME', 'encdb_starts_with' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20;
CREATE FUNCTION strpos(enc_text, enc_text) RETURNS enc_int4
    AS 'MODULE_PATHNAME', 'encdb_position' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;
CREATE FUNCTION replace(enc_text, enc_text, enc_text) RETURNS enc_text
    AS 'MODULE_PATHNAME', 'encdb_replace' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;
CREATE FUNCTION replace(enc_text, text, text) RETURNS enc_text
    AS 'MODULE_PATHNAME', 'encdb_replace_plain' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;
CREATE FUNCTION split_part(enc_text, enc_text, integer) RETURNS enc_text
    AS 'MODULE_PATHNAME', 'encdb_split_part' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;
CREATE FUNCTION split_part(enc_text, text, integer) RETURNS enc_text
    AS 'MODULE_PATHNAME', 'encdb_split_part_plain' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;

-- What is joined: NULL is left out. In this schema, because PostgreSQL's take any type: of literals alone neither would be preferred.
CREATE FUNCTION encdb.concat(VARIADIC enc_text[]) RETURNS enc_text
    AS 'MODULE_PATHNAME', 'encdb_concat_all' LANGUAGE C STABLE PARALLEL SAFE COST 20;
CREATE FUNCTION encdb.concat_ws(enc_text, VARIADIC enc_text[]) RETURNS enc_text
    AS 'MODULE_PATHNAME', 'encdb_concat_ws' LANGUAGE C STABLE PARALLEL SAFE COST 20;
CREATE FUNCTION encdb.enc_text_string_agg_step(internal, enc_text, enc_text) RETURNS internal
    AS 'MODULE_PATHNAME', 'encdb_string_agg_step' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 10;
CREATE FUNCTION encdb.enc_text_string_agg_final(internal) RETURNS enc_text
    AS 'MODULE_PATHNAME', 'encdb_string_agg_final' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 20;
CREATE AGGREGATE string_agg(enc_text, enc_text) (
    SFUNC = encdb.enc_text_string_agg_step, STYPE = internal, SSPACE = 4096,
    FINALFUNC = encdb.enc_text_string_agg_final, FINALFUNC_MODIFY = READ_ONLY, PARALLEL = SAFE
);

-- The parser makes calls of pg_catalog's functions of TRIM(... FROM x) and POSITION(y IN x), too.
CREATE FUNCTION pg_catalog.btrim(enc_text) RETURNS enc_text
    AS 'MODULE_PATHNAME', 'encdb_btrim' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;
CREATE FUNCTION pg_catalog.btrim(enc_text, enc_text) RETURNS enc_text
    AS 'MODULE_PATHNAME', 'encdb_btrim' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;
CREATE FUNCTION pg_catalog.btrim(enc_text, text) RETURNS enc_text
    AS 'MODULE_PATHNAME', 'encdb_btrim_plain' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;
CREATE FUNCTION pg_catalog.ltrim(enc_text) RETURNS enc_text
    AS 'MODULE_PATHNAME', 'encdb_ltrim' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;
CREATE FUNCTION pg_catalog.ltrim(enc_text, enc_text) RETURNS enc_text
    AS 'MODULE_PATHNAME', 'encdb_ltrim' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;
CREATE FUNCTION pg_catalog.ltrim(enc_text, text) RETURNS enc_text
    AS 'MODULE_PATHNAME', 'encdb_ltrim_plain' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;
CREATE FUNCTION pg_catalog.rtrim(enc_text) RETURNS enc_text
    AS 'MODULE_PATHNAME', 'encdb_rtrim' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;
CREATE FUNCTION pg_catalog.rtrim(enc_text, enc_text) RETURNS enc_text
    AS 'MODULE_PATHNAME', 'encdb_rtrim' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;
CREATE FUNCTION pg_catalog.rtrim(enc_text, text) RETURNS enc_text
    AS 'MODULE_PATHNAME', 'encdb_rtrim_plain' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;
CREATE FUNCTION pg_catalog."position"(enc_text, enc_text) RETURNS enc_int4
    AS 'MODULE_PATHNAME', 'encdb_position' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;

-- Strings of bytes

CREATE FUNCTION encdb.enc_bytea_concat(enc_bytea, enc_bytea) RETURNS enc_bytea
    AS 'MODULE_PATHNAME', 'encdb_concat' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;
CREATE OPERATOR || (LEFTARG = enc_bytea, RIGHTARG = enc_bytea, FUNCTION = encdb.enc_bytea_concat);

CREATE FUNCTION encdb.enc_bytea_like(enc_bytea, enc_bytea) RETURNS boolean
    AS 'MODULE_PATHNAME', 'encdb_like' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20;
CREATE FUNCTION encdb.enc_bytea_nlike(enc_bytea, enc_bytea) RETURNS boolean
    AS 'MODULE_PATHNAME', 'encdb_nlike' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20;
CREATE OPERATOR ~~ (
    LEFTARG = enc_bytea, RIGHTARG = enc_bytea, FUNCTION = encdb.enc_bytea_like,
    NEGATOR = !~~, RESTRICT = likesel, JOIN = likejoinsel
);
CREATE OPERATOR !~~ (
    LEFTARG = enc_bytea, RIGHTARG = enc_bytea, FUNCTION = encdb.enc_bytea_nlike,
    NEGATOR = ~~, RESTRICT = nlikesel, JOIN = nlikejoinsel
);

CREATE FUNCTION pg_catalog.substring(enc_bytea, integer) RETURNS enc_bytea
    AS 'MODULE_PATHNAME', 'encdb_substring' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;
CREATE FUNCTION pg_catalog.substring(enc_bytea, integer, integer) RETURNS enc_bytea
    AS 'MODULE_PATHNAME', 'encdb_substring' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;
CREATE FUNCTION substr(enc_bytea, integer) RETURNS enc_bytea
    AS 'MODULE_PATHNAME', 'encdb_substring' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;
CREATE FUNCTION substr(enc_bytea, integer, integer) RETURNS enc_bytea
    AS 'MODULE_PATHNAME', 'encdb_substring' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;
CREATE FUNCTION length(enc_bytea) RETURNS enc_int4
    AS 'MODULE_PATHNAME', 'encdb_length' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;

-- Fields of dates, times and intervals, and the months, days and time between two times; those of enc_timestamptz are read in UTC.

CREATE FUNCTION pg_catalog.extract(text, enc_date) RETURNS enc_decimal
    AS 'MODULE_PATHNAME', 'encdb_extract' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;
CREATE FUNCTION pg_catalog.extract(text, enc_timestamp) RETURNS enc_decimal
    AS 'MODULE_PATHNAME', 'encdb_extract' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;
CREATE FUNCTION pg_catalog.extract(text, enc_timestamptz) RETURNS enc_decimal
    AS 'MODULE_PATHNAME', 'encdb_extract' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;
CREATE FUNCTION pg_catalog.extract(text, enc_interval) RETURNS enc_decimal
    AS 'MODULE_PATHNAME', 'encdb_extract' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;
CREATE FUNCTION date_part(text, enc_date) RETURNS enc_float8
    AS 'MODULE_PATHNAME', 'encdb_date_part' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;
CREATE FUNCTION date_part(text, enc_timestamp) RETURNS enc_float8
    AS 'MODULE_PATHNAME', 'encdb_date_part' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;
CREATE FUNCTION date_part(text, enc_timestamptz) RETURNS enc_float8
    AS 'MODULE_PATHNAME', 'encdb_date_part' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;
CREATE FUNCTION date_part(text, enc_interval) RETURNS enc_float8
    AS 'MODULE_PATHNAME', 'encdb_date_part' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;
CREATE FUNCTION date_trunc(text, enc_date) RETURNS enc_timestamptz
    AS 'MODULE_PATHNAME', 'encdb_date_trunc' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;
CREATE FUNCTION date_trunc(text, enc_timestamp) RETURNS enc_timestamp
    AS 'MODULE_PATHNAME', 'encdb_date_trunc' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;
CREATE FUNCTION date_trunc(text, enc_timestamptz) RETURNS enc_timestamptz
    AS 'MODULE_PATHNAME', 'encdb_date_trunc' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;
CREATE FUNCTION encdb.age(enc_timestamp, enc_timestamp) RETURNS enc_interval
    AS 'MODULE_PATHNAME', 'encdb_age' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;
CREATE FUNCTION encdb.age(enc_timestamptz, enc_timestamptz) RETURNS enc_interval
    AS 'MODULE_PATHNAME', 'encdb_age' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;

-- The zone is UTC, and names are English.

CREATE FUNCTION to_char(enc_date, text) RETURNS enc_text
    AS 'MODULE_PATHNAME', 'encdb_to_char' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;
CREATE FUNCTION to_char(enc_timestamp, text) RETURNS enc_text
    AS 'MODULE_PATHNAME', 'encdb_to_char' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;
CREATE FUNCTION to_char(enc_timestamptz, text) RETURNS enc_text
    AS 'MODULE_PATHNAME', 'encdb_to_char' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;

-- Of numbers with the signs of the locale C.

CREATE FUNCTION to_char(enc_int4, text) RETURNS enc_text
    AS 'MODULE_PATHNAME', 'encdb_to_char' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;
CREATE FUNCTION to_char(enc_int8, text) RETURNS enc_text
    AS 'MODULE_PATHNAME', 'encdb_to_char' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;
CREATE FUNCTION to_char(enc_float4, text) RETURNS enc_text
    AS 'MODULE_PATHNAME', 'encdb_to_char' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;
CREATE FUNCTION to_char(enc_float8, text) RETURNS enc_text
    AS 'MODULE_PATHNAME', 'encdb_to_char' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;
CREATE FUNCTION to_char(enc_decimal, text) RETURNS enc_text
    AS 'MODULE_PATHNAME', 'encdb_to_char' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;

-- AT TIME ZONE, by its name as a function. The parser calls pg_catalog.timezone: with functions of ours in it, or on the search path,
-- a plain text would have no best candidate.

CREATE FUNCTION encdb.timezone(text, enc_timestamptz) RETURNS enc_timestamp
    AS 'MODULE_PATHNAME', 'encdb_timezone' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;
CREATE FUNCTION encdb.timezone(text, enc_timestamp) RETURNS enc_timestamptz
    AS 'MODULE_PATHNAME', 'encdb_timezone' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;

-- Rounding: decimals are counted of numeric only.

CREATE FUNCTION round(enc_decimal, integer) RETURNS enc_decimal
    AS 'MODULE_PATHNAME', 'encdb_round' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;
CREATE FUNCTION trunc(enc_decimal, integer) RETURNS enc_decimal
    AS 'MODULE_PATHNAME', 'encdb_trunc' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20 SUPPORT encdb.compile;
