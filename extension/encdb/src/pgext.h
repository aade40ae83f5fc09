/*
 * pgext.h
 *	  What libpgseal_pgext.a gives to the C shell: crates/encdb/pgext, in Rust.
 *
 * 1. Every call that can be refused returns 0 when done, else a number that
 *	  pgseal_refusal() describes until the next call.
 * 2. Bytes in an answer belong to the library and hold until the next call.
 * 3. Nothing here throws, blocks without an end, or keeps a pointer that it
 *	  was given, except those of PgsealAttach that say so. One thread calls.
 */
#ifndef PGSEAL_PGEXT_H
#define PGSEAL_PGEXT_H

#include <stddef.h>
#include <stdint.h>

typedef struct PgsealBytes
{
	const uint8_t *data;
	size_t		len;
} PgsealBytes;

/* What the shell does about a refusal, beside raising it */
typedef enum PgsealRemedy
{
	PGSEAL_REMEDY_NONE = 0,
	PGSEAL_REMEDY_LOAD_KEYS,	/* hand over the rows of encdb.data_key, again */
	PGSEAL_REMEDY_REATTACH		/* the evaluator went away: look for it again */
} PgsealRemedy;

typedef struct PgsealRefusal
{
	char		sqlstate[6];
	PgsealRemedy remedy;
	const char *message;		/* one sentence, never a value */
} PgsealRefusal;

/* Who speaks, told once per backend and again after pgseal_detach() */
typedef enum PgsealPeer
{
	PGSEAL_CLIENT = 1,
	PGSEAL_PARALLEL_WORKER,
	PGSEAL_BACKGROUND
} PgsealPeer;

typedef struct PgsealAttach
{
	PgsealPeer	peer;
	const char *socket;			/* of the isolated form; NULL: inline */
	uint8_t		database[16];
	uint32_t	role;			/* whose share of an isolated evaluator this is of */
	/* Of the leader, which a client's backend is itself; its cluster's nonce, by which only its workers find it */
	uint8_t		nonce[32];
	int			leader;			/* process id */
	int64_t		leader_started;
	/* Whether PostgreSQL has a process as a parallel worker of this backend. Called in a thread of the library's, at any time */
	int			(*is_worker) (int process);
	/* An isolated evaluator is waited for until one of these is set; they live as long as we */
	const volatile int *cancel;
	const volatile int *die;
} PgsealAttach;

/* Of which header the library was built: PGSEAL_INTERFACE, which the Makefile defines, is that of the shell */
extern uint64_t pgseal_interface(void);

extern int	pgseal_attach(const PgsealAttach *attach);
extern void pgseal_detach(void);
extern void pgseal_set_time(int64_t unix_seconds);
extern void pgseal_refusal(PgsealRefusal *refusal);

/* How many requests an evaluator outside has been asked by this process */
extern uint64_t pgseal_requests(void);

/* The session's messages, relayed; `opened` says that this one opened a session, so that the keys' rows are wanted now */
extern int	pgseal_message(PgsealBytes message, PgsealBytes *answer, int *opened);

/* Why this session's parallel workers get no session, told once by each process; NULL: they get it, or it has been told */
extern const char *pgseal_warning(void);

/*
 * Wrapped data keys, their names in UTF-8, in as many requests as they need; what is no key of the session's owners is passed
 * over.
 */
typedef struct PgsealKeyRow
{
	PgsealBytes keyname;
	PgsealBytes wrapped;
} PgsealKeyRow;

extern int	pgseal_load_keys(const PgsealKeyRow *rows, size_t nrows);

/* One more, which was just made. Parallel workers load it where they meet its cells */
extern int	pgseal_add_key(const PgsealKeyRow *row);

/* What a wrapped key says of itself; needs no key and no evaluator */
extern int	pgseal_wrapped_key(PgsealBytes wrapped, uint32_t *id, int *deterministic);

/* Form alone; needs no key and no evaluator. `type` 0: any */
extern int	pgseal_check(PgsealBytes cell, uint8_t type);

/* `locale` NULL: byte order */
extern int	pgseal_compare(PgsealBytes left, PgsealBytes right, const char *locale, int *order);

/* Of sorted cells, in their order: how many lie before a probe, and how many before or with it */
typedef struct PgsealPosition
{
	uint32_t	before;
	uint32_t	through;
	int			descending;
} PgsealPosition;

extern int	pgseal_search(PgsealBytes probe, const PgsealBytes *cells, size_t ncells,
						  const char *locale, PgsealPosition *position);

#define PGSEAL_MOST_CELLS	256
#define PGSEAL_MOST_FINDINGS	16
#define PGSEAL_MOST_EQUAL	2

/* The page that a search in an index begins with; without cells it is not handed over, and the evaluator may have it */
typedef struct PgsealStart
{
	uint8_t		index[16];
	uint32_t	block;
	uint32_t	right;			/* the page beside it; 0: none */
	const PgsealBytes *cells;	/* in their order */
	size_t		ncells;
	const uint32_t *children;	/* the pages below, the first before the first cell */
	size_t		nchildren;
} PgsealStart;

/*
 * Of a page on the probe's way, as the evaluator has it: the cells beside the probe, of 0 bytes if there are none. They are
 * beside it wherever they are. Of a page that it does not keep, only the position is told.
 */
typedef struct PgsealFinding
{
	uint32_t	block;
	PgsealPosition position;
	PgsealBytes below;
	PgsealBytes above;
	PgsealBytes equal[PGSEAL_MOST_EQUAL];	/* the first and the last */
	size_t		nequal;
	PgsealBytes far;			/* the cell at the other end, where there is none on one side */
	int			uniform;		/* the page's ends are equal, and it may be sorted either way */
} PgsealFinding;

/*
 * At most PGSEAL_MOST_FINDINGS, of one page after the other, down and to the right; a page that is handed over is the first. The
 * bytes are there until the next call.
 */
extern int	pgseal_descend(PgsealBytes probe, const PgsealStart *start, const char *locale,
						   PgsealFinding *findings, size_t *nfindings);
/* Ranks from 0 on, equal for equal values: a sort of so many cells by one request */
extern int	pgseal_rank(const PgsealBytes *cells, size_t ncells, const char *locale, uint32_t *ranks);
extern int	pgseal_hash(PgsealBytes cell, uint64_t seed, uint64_t *hash);
extern int	pgseal_order_prefix(PgsealBytes cell, uint64_t *prefix);

/* `operator` as in SQL; p is the power of numerics as it is since PostgreSQL 16, ~ the negative, @ the absolute value */
extern int	pgseal_arithmetic(uint8_t operator, PgsealBytes left, PgsealBytes right, PgsealBytes *result);
/* PostgreSQL's interval; `operator` is + or - */
typedef struct PgsealInterval
{
	int64_t		microseconds;
	int32_t		days;
	int32_t		months;
} PgsealInterval;

extern int	pgseal_add_interval(uint8_t operator, PgsealBytes cell, PgsealInterval interval,
								PgsealBytes *result);
extern int	pgseal_unary(uint8_t operator, PgsealBytes cell, PgsealBytes *result);
extern int	pgseal_cast(PgsealBytes cell, uint8_t type, PgsealBytes *result);

/* The step of a program that takes a field; 0: EXTRACT does not know it */
extern uint8_t pgseal_field_step(PgsealBytes field);
/* The same of a unit that date_trunc knows; 0 of other fields, too */
extern uint8_t pgseal_unit_step(PgsealBytes unit);

/*
 * Operators, casts and functions one on another: a program in postfix order, a sign for each step. `$` is the next operand,
 * `|` is ||, # is length(), PGSEAL_CAST with a type's number is a cast, what pgseal_field_step() returns is a field, and the
 * others are those of pgseal_arithmetic and pgseal_unary. A function of text is a small letter and its other arguments in
 * parentheses, one of numbers or times a capital letter and its argument: a locale's name, and none is C, or between commas numbers, `$` for a value that was computed before the
 * step, and texts in quotes. In these, bytes that are no printable ASCII, and % " , and ), are % and two hexadecimal
 * digits. An operand without bytes is NULL.
 */
#define PGSEAL_MOST_OPERANDS	64
#define PGSEAL_MOST_PROGRAM	256	/* bytes */
#define PGSEAL_CAST			0x40

extern int	pgseal_compute(PgsealBytes program, const PgsealBytes *operands, size_t noperands,
						   PgsealBytes *result, int *is_null);

/*
 * Answers about many cells by one request. A cell that is not told about is to be asked about alone: the answer is a refusal,
 * or something has to be done first.
 */
#define PGSEAL_UNTOLD	2		/* among orders, which are -1, 0 and 1, and truths */

/* How a text is compared with a pattern; `locale` is that of the letters, for all but LIKE and prefixes */
#define PGSEAL_LIKE		0
#define PGSEAL_ILIKE	1
#define PGSEAL_STARTS_WITH	2	/* the pattern is a prefix */
#define PGSEAL_REGEX	3
#define PGSEAL_IREGEX	4
#define PGSEAL_SIMILAR	5		/* SIMILAR TO, whose escape is the backslash */
#define PGSEAL_HAS_WORDS	6	/* @@ */

/* The parts of a text that have tokens, in lower case by the letters of `locale` */
#define PGSEAL_WORDS	0
#define PGSEAL_TRIGRAMS	1
#define PGSEAL_PATTERN_TRIGRAMS	2	/* those that all texts have which LIKE or ILIKE this pattern */

/* Whether an index serves a pattern of LIKE by its beginning: it has one, and the session may compare texts with it */
extern int	pgseal_has_prefix(PgsealBytes pattern, int *has);

/* Tokens of 8 bytes, each once. Not told: the pattern is to be matched with all texts */
extern int	pgseal_tokens(PgsealBytes cell, int parts, const char *locale, PgsealBytes *tokens, int *told);

/* Of each on the left to the one on the right at its place, or to the only one */
extern int	pgseal_compare_each(const PgsealBytes *lefts, size_t nlefts, const PgsealBytes *rights, size_t nrights,
								const char *locale, int8_t *orders);
extern int	pgseal_like_each(const PgsealBytes *texts, size_t ntexts, PgsealBytes pattern, int how, const char *locale,
							 int8_t *truths);

/* Of two cells of one key and one type, whose values are equal if the tags are. The first 8 bytes are the hash with seed 0 */
typedef struct PgsealTag
{
	uint8_t		bytes[16];
	int			told;
} PgsealTag;

extern int	pgseal_tag_each(const PgsealBytes *cells, size_t ncells, PgsealTag *tags);

/* A result without bytes is NULL */
typedef struct PgsealComputed
{
	PgsealBytes cell;
	int			told;
} PgsealComputed;

/* `operands` has those of the first row, then those of the second, and so on */
extern int	pgseal_compute_each(PgsealBytes program, const PgsealBytes *operands, size_t noperands, size_t nrows,
								PgsealComputed *results);

/*
 * Conditions on the cells of a row, each in prefix notation. A comparison is its sign, two operands and a collation:
 * = ! < l > g are =, <>, <, <=, > and >=. L is LIKE and S starts_with, with two operands; I is ILIKE and W is @@, with a collation, too.
 * & and | are AND and OR, with the number of the conditions that follow; ~ is NOT. An operand is the number of a column,
 * PGSEAL_COMPUTED and that of a program, or PGSEAL_CONSTANT and that of a constant; a cell without bytes is NULL. A collation
 * is 0 for C, or its number from 1 on.
 */
#define PGSEAL_CONSTANT		0x80
#define PGSEAL_COMPUTED		0x40
#define PGSEAL_MOST_FILTER	2048	/* bytes */
#define PGSEAL_MOST_DEPTH	16		/* of conditions in each other */

typedef struct PgsealFilter
{
	PgsealBytes conditions;
	const PgsealBytes *programs;	/* the number of the operands, the operands, and the steps of each */
	size_t		nprograms;
	const PgsealBytes *collations;	/* names */
	size_t		ncollations;
	const PgsealBytes *constants;
	size_t		nconstants;
	uint8_t		columns;
} PgsealFilter;

/* So many of its conditions hold, from the first on; the next one fails, or is to be asked alone if any is left */
typedef struct PgsealFiltered
{
	uint32_t	hold;
	int			fails;
} PgsealFiltered;

/* `cells` has those of the first row, then those of the second, and so on */
extern int	pgseal_filter_each(const PgsealFilter *filter, const PgsealBytes *cells, size_t nrows,
							   PgsealFiltered *filtered);

extern int	pgseal_concat(PgsealBytes left, PgsealBytes right, PgsealBytes *result);
extern int	pgseal_like(PgsealBytes text, PgsealBytes pattern, int how, const char *locale, int *matches);
/* `escape` in UTF-8 */
extern int	pgseal_like_escape(PgsealBytes pattern, PgsealBytes escape, PgsealBytes *result);
extern int	pgseal_length(PgsealBytes text, PgsealBytes *result);

/*
 * What comes into an aggregate's state together. `kind`: 's' sum, 'a' avg, '<' min, '>' max, 'v' var_samp, 'V' var_pop,
 * 'd' stddev_samp, 'D' stddev_pop, '&' bool_and, '|' bool_or. Aggregates of two numbers, whose cells are y, x, y, x and so on:
 * 'c' corr, 'P' covar_pop, 'p' covar_samp, 'm' regr_slope, 'i' regr_intercept, 'r' regr_r2, 'X' regr_avgx, 'Y' regr_avgy,
 * 'x' regr_sxx, 'y' regr_syy, 'z' regr_sxy. A sum or an avg takes also what
 * programs make of cells: `shape` has a byte for each value, 0 for a cell as it is, and else the number of a program, from 1
 * on, whose operands are so many cells. Without bytes all are cells.
 */
typedef struct PgsealBatch
{
	uint8_t		kind;
	const char *locale;			/* of extremes; NULL: byte order */
	const PgsealBytes *programs;
	size_t		nprograms;
	PgsealBytes shape;
	const PgsealBytes *cells;
	size_t		ncells;
} PgsealBatch;

/*
 * States live in the evaluator; *state 0 makes one. No number is given twice in a process: one of a state that is gone, with
 * its session or its evaluator, is refused. The result is that of a state after a last batch, maybe an empty one: of a
 * state that does not stay nothing is left, and of the batch alone, by state 0, none is made.
 */
extern int	pgseal_aggregate_step(uint64_t *state, const PgsealBatch *batch);
extern int	pgseal_aggregate_combine(uint64_t state, uint64_t other);
extern int	pgseal_aggregate_export(uint64_t state, PgsealBytes *sealed);
extern int	pgseal_aggregate_import(PgsealBytes sealed, uint64_t *state);
extern int	pgseal_aggregate_finish(uint64_t state, const PgsealBatch *batch, int stays,
									PgsealBytes *result, int *is_null);
extern void pgseal_aggregate_drop(uint64_t state);
/* The results of many groups, each as that of a batch alone: `counts` has the numbers of their values, which are in `batch` */
extern int	pgseal_aggregate_each(const PgsealBatch *batch, const uint32_t *counts, size_t ngroups,
								  PgsealComputed *results);

/* Plain bytes are those of the type's send function */
extern int	pgseal_encrypt(uint32_t key, uint8_t type, PgsealBytes plain, PgsealBytes *cell);
extern int	pgseal_decrypt(PgsealBytes cell, uint8_t type, PgsealBytes *plain);

/* What a grant says of itself; its owner's signature was looked at */
typedef struct PgsealGrant
{
	uint8_t		serial[16];
	uint8_t		owner[32];
	uint8_t		subject[32];	/* a client's key; none is the owner, or background work */
	size_t		subject_len;
} PgsealGrant;

extern int	pgseal_grant(PgsealBytes grant, PgsealGrant *terms);
extern int	pgseal_revocations(PgsealBytes list, uint8_t *owner, int64_t *sequence);

typedef struct PgsealNewKey
{
	PgsealBytes keyname;		/* in UTF-8 */
	uint32_t	group;
	int			deterministic;
} PgsealNewKey;

extern int	pgseal_generate_key(const PgsealNewKey *wanted, PgsealBytes *wrapped);

#endif							/* PGSEAL_PGEXT_H */
