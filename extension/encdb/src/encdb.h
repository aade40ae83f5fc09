/*
 * encdb.h
 *	  What the shell's files share. Cells are varlena; nothing here opens one.
 */
#ifndef ENCDB_H
#define ENCDB_H

#include "postgres.h"

#include "access/xact.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "nodes/pg_list.h"
#include "utils/sortsupport.h"
#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif
#include "pgext.h"

typedef struct varlena Cell;

#define PG_GETARG_CELL(n)	PG_GETARG_VARLENA_PP(n)
#define CellBytes(cell) \
	((PgsealBytes) {(const uint8_t *) VARDATA_ANY(cell), VARSIZE_ANY_EXHDR(cell)})
#define CellType(cell)		(((const uint8_t *) VARDATA_ANY(cell))[1])
#define CellForm(cell)		(((const uint8_t *) VARDATA_ANY(cell))[2])
/* A cell of version 1 is this much longer than its value; the version is in the byte with the mode */
#define CELL_HEADER			35
#define IsVersion1(cell)	(VARSIZE_ANY_EXHDR(cell) >= CELL_HEADER && CellForm(cell) >> 4 == 1)

/* Types whose handling is their own; the others are crates/encdb/value's business */
#define TYPE_TEXT			0x39

/* The power of numerics changed in 16 */
#if PG_VERSION_NUM >= 160000
#define POWER_SIGN			'p'
#else
#define POWER_SIGN			'^'
#endif

/* From 19 on a planner gets the EXPLAIN that it plans for, and a query's jumble is constant */
#if PG_VERSION_NUM >= 190000
#define PLANNER_PARAMETERS	ParamListInfo parameters, struct ExplainState *explain
#define PLANNER_ARGUMENTS	parameters, explain
#define JUMBLE_PARAMETER	const JumbleState *jumble
#else
#define PLANNER_PARAMETERS	ParamListInfo parameters
#define PLANNER_ARGUMENTS	parameters
#define JUMBLE_PARAMETER	JumbleState *jumble
#endif

/* What makes a cell of cells and is compiled: names of functions, and the signs that pgext.h has for them */
#define FOR_EACH_BINARY(FUNCTION) \
	FUNCTION(add, '+') FUNCTION(sub, '-') FUNCTION(mul, '*') FUNCTION(div, '/') FUNCTION(mod, '%') \
	FUNCTION(power, POWER_SIGN) FUNCTION(age, 'm')
#define FOR_EACH_UNARY(FUNCTION) \
	FUNCTION(negate, '~') FUNCTION(abs, '@')
/* Casts, with the numbers of the types that they lead to */
#define FOR_EACH_CAST(FUNCTION) \
	FUNCTION(to_int4, 0x09) FUNCTION(to_int8, 0x0a) FUNCTION(to_float4, 0x0b) FUNCTION(to_float8, 0x0c) \
	FUNCTION(to_decimal, 0x0d) FUNCTION(to_bool, 0x0e) FUNCTION(to_date, 0x0f) FUNCTION(to_timestamp, 0x10) \
	FUNCTION(to_timestamptz, 0x11) FUNCTION(to_interval, 0x14) FUNCTION(to_text, TYPE_TEXT)

extern int	encdb_evaluator;
extern char *encdb_socket;

enum
{
	EVALUATOR_INLINE,
	EVALUATOR_ISOLATED
};

extern int	encdb_page_requests;
extern bool encdb_read_ahead;

enum
{
	PAGE_REQUESTS_AUTO,
	PAGE_REQUESTS_ON,
	PAGE_REQUESTS_OFF
};

/* session.c */
extern bool encdb_attached;
extern TimestampTz encdb_statement;
/* Grows whenever what an evaluator answered may hold no longer: at every statement, and when sessions change */
extern uint64 encdb_epoch;
extern bool encdb_attach(void);
extern void encdb_new_statement(void);
extern void encdb_forget_session(void);
extern void encdb_session_init(void);
extern struct PgBackendStatus *encdb_leader_status(void);

/* False: there is no evaluator, and the library knows why */
static inline bool
Attached(void)
{
	if (unlikely(!encdb_attached))
		return encdb_attach();
	if (unlikely(encdb_statement != GetCurrentStatementStartTimestamp()))
		encdb_new_statement();
	return true;
}

/* refusal.c */
/* PostgreSQL's own word for it changed in 18 */
extern void encdb_refuse(void) __attribute__((noreturn));
extern bool encdb_try_remedy(void);

/* Calls the library until it is done: a key that it lacks is handed over once. False: refused */
#define ENCDB_TRY(call) \
	(likely(Attached() && (call) == 0) || (encdb_try_remedy() && (call) == 0))

/* The same, with every refusal raised */
#define ENCDB_CALL(call) \
	do { \
		if (!ENCDB_TRY(call)) \
			encdb_refuse(); \
	} while (0)

/* analyze.c */
extern bool encdb_in_analyze(void);
extern void encdb_analyze_init(void);

/* Ends a function that makes a cell of cells: ANALYZE makes do with one of them */
#define ENCDB_STAND_IN(cell) \
	do { \
		if (unlikely(encdb_in_analyze())) \
			PG_RETURN_POINTER(cell); \
	} while (0)

/* background.c */
extern int	encdb_order_of_bytes(Cell *left, Cell *right);
extern bool encdb_order_in_vacuum(FunctionCallInfo fcinfo, int *order);

/* distinct.c */
extern bool encdb_keys_are_read(bool of_tuples);
extern void encdb_distinct_init(void);

/* cell.c */
extern Datum encdb_out(PG_FUNCTION_ARGS);
extern Datum encdb_cell_datum(PgsealBytes bytes);
extern bool encdb_is_written_cell(PgsealBytes text);

/* collation.c */
extern const char *encdb_locale(Oid collation);
extern const char *encdb_ctype(Oid collation);
extern const char *encdb_regex_ctype(Oid collation, bool insensitive);
extern bool encdb_has_rules(Oid collation);
extern bool encdb_has_ctype(Oid collation);
extern void encdb_collation_init(void);

/* encoding.c */
extern bool encdb_to_utf8(text *value, PgsealBytes *utf8);
extern PgsealBytes encdb_utf8(text *value);
extern text *encdb_text(PgsealBytes utf8);

/* convert.c */
extern void encdb_convert_init(void);

/* plain_operand.c */
typedef struct PlainType PlainType;
extern const PlainType *encdb_plain_type(Oid type);
extern bool encdb_plain_take(const PlainType *plain, Datum value, MemoryContext context, PgsealBytes *operand);
extern bool encdb_plain_is_steady(Node *node);
extern Cell *encdb_plain_operand(const PlainType *plain, Datum value);
extern char encdb_comparison_sign(PGFunction function, int *plain);
extern char encdb_comparison_of(Oid function, int *plain);

/* pattern_prefix.c */
extern bool encdb_is_prefix_end(Node *operand);

/* plain_open.c */
extern void encdb_plain_refuse_literals(Node *node);
extern void encdb_plain_open_init(void);

/* plain.c */
extern bool encdb_is_of_cells(Oid type);
extern void encdb_plain_look(Node *expression);
extern void encdb_plain_init(void);

/* ahead_plan.c */
extern void encdb_ahead_init(void);

/* jit.c */
extern void encdb_jit_init(void);

/* presorted.c */
extern void encdb_presorted_init(void);

/* expression.c */
extern bool encdb_has_default_rights(Oid function);
extern bool encdb_expression_steps(Node *node, StringInfo steps, List **operands);

/* text.c */
extern Datum encdb_like(PG_FUNCTION_ARGS);
extern Datum encdb_regex(PG_FUNCTION_ARGS);
extern Datum encdb_nlike(PG_FUNCTION_ARGS);
extern Datum encdb_ilike(PG_FUNCTION_ARGS);
extern Datum encdb_nilike(PG_FUNCTION_ARGS);
extern Datum encdb_starts_with(PG_FUNCTION_ARGS);
extern Datum encdb_nregex(PG_FUNCTION_ARGS);
extern Datum encdb_similar(PG_FUNCTION_ARGS);
extern Datum encdb_niregex(PG_FUNCTION_ARGS);
extern Datum encdb_nsimilar(PG_FUNCTION_ARGS);
extern Datum encdb_has_words(PG_FUNCTION_ARGS);

/* text_functions.c */
extern Datum encdb_similar_to_escape(PG_FUNCTION_ARGS);
/* What a function of text needs of its collation */
typedef enum TextRules
{
	RULES_NONE,
	RULES_SEARCH,				/* that equal texts are equal bytes */
	RULES_LETTERS
} TextRules;

/* A function of text that is a step of programs */
typedef struct TextFunction
{
	PGFunction	function;
	char		letter;			/* in the program */
	const char *arguments;		/* at most: c a cell, t a plain text, n a number; cells come first, behind one of times.c's */
	TextRules	rules;
} TextFunction;

extern const TextFunction *encdb_text_function(PGFunction function);
extern int	encdb_text_first(const TextFunction *function);
extern int	encdb_text_operands(const TextFunction *function, int narguments);
extern bool encdb_text_step(const TextFunction *function, List *arguments, Oid collation, StringInfo steps);

/* times.c */
/* What comes before the cell, as TextFunction has it: the name of a field, of a unit, or of a time zone */
#define TIME_FIELD			'f'
#define TIME_PART			'p'
#define TIME_UNIT			'u'
#define TIME_ZONE			'z'
extern bool encdb_time_step(char kind, text *plain, StringInfo steps);
extern bool encdb_time_step_stays(char kind, text *plain);

/* stored.c */
extern void encdb_stored_init(void);

/* compare.c */
extern Datum encdb_eq(PG_FUNCTION_ARGS);
extern Datum encdb_ne(PG_FUNCTION_ARGS);
extern Datum encdb_lt(PG_FUNCTION_ARGS);
extern Datum encdb_le(PG_FUNCTION_ARGS);
extern Datum encdb_gt(PG_FUNCTION_ARGS);
extern Datum encdb_ge(PG_FUNCTION_ARGS);
extern const char *encdb_locale_of(PgsealBytes cell, Oid collation);
extern int	encdb_compare(Cell *left, Cell *right, Oid collation);
extern int	encdb_compare_call(const FmgrInfo *call, Cell *left, Cell *right, Oid collation);

/* sort_content.c */
extern bool encdb_sort_equal(Cell *left, Cell *right, bool *equal);
extern void encdb_sort_by_content(SortSupport ssup, const char *locale);

/* rank.c */
extern bool encdb_rank(const PgsealBytes *cells, int ncells, const char *locale, uint32 *ranks);

/* btree.c */
extern bool encdb_btree_compare(Cell *left, Cell *right, const char *locale, int *order);

/* btree_page.c */
extern char *encdb_btree_page(const void *datum);

/* keys.c */
extern bool encdb_load_keys(void);
extern uint32 encdb_find_key(text *keyname);
extern text *encdb_default_keyname(void);

#endif							/* ENCDB_H */
