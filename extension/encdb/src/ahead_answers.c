/*
 * ahead_answers.c
 *	  Orders and matches of the rows that were read ahead, for each call of an operator in a query.
 *
 * A call has one cell in the row and another one, its operand, which may be of the row, too. When it has no answer, the evaluator is asked about this row and
 * those that come next. It is not asked about rows of which a filter is known to fail.
 *
 * Where answers are not used, because another operand comes or the rows do not come as far, the call waits before it asks
 * again: each time twice as long.
 */
#include "ahead.h"

#include "executor/executor.h"
#include "utils/memutils.h"

#define UNASKED			3		/* beside the evaluator's answers */
#define IS_NULL			4
/* A call asks again if so many of its answers were used, or one in so many */
#define ENOUGH			8
#define ONE_IN			8
#define MAX_WAIT		1024

struct CallSite
{
	const FmgrInfo *call;
	int			column;			/* whose cells are in the row */
	bool		is_right;		/* the cell in the row is the call's second argument */
	bool		is_filter;		/* of the node itself: where it is false the row is not given */
	bool		varies;			/* another operand came for the same rows */
	int			operand_column; /* where that is a column of the row; else -1 */
	PgsealBytes operand;		/* a copy of it otherwise */
	uint8	   *bytes;
	Size		allocated;
	const char *locale;
	uint64		batch;
	uint64		epoch;
	Asking		asking;
	int8		answers[MAX_AHEAD];
};

/* The other cell of a call */
typedef struct Operand
{
	int			column;			/* in the same row, or -1 */
	PgsealBytes cell;
	const char *locale;			/* of the call */
} Operand;

/* The rows that are asked about: their cells, and the operands if they are of the row */
typedef struct Rows
{
	int			n;
	int			row[MAX_AHEAD];
	PgsealBytes cells[MAX_AHEAD];
	PgsealBytes operands[MAX_AHEAD];
} Rows;

/* How the evaluator is asked about many */
typedef int (*AskEach) (const CallSite *site, const Rows *rows, int8 *answers);

/* An operator or a function alone: IN and IS DISTINCT FROM call one, and may be true where it is false */
static bool
IsFilter(const Ahead *node, const FmgrInfo *call)
{
	return call->fn_expr && (IsA(call->fn_expr, OpExpr) || IsA(call->fn_expr, FuncExpr)) &&
		list_member_ptr(node->scan.ss.ps.plan->qual, call->fn_expr);
}

/* What is known of a call on this node's rows; NULL: there are too many others */
static CallSite *
EncdbAheadSite(Ahead *node, const FmgrInfo *call, int column, bool is_right)
{
	CallSite   *site;

	for (int i = 0; i < node->nsites; i++)
		if (node->sites[i]->call == call && node->sites[i]->column == column && node->sites[i]->is_right == is_right)
			return node->sites[i];
	if (node->nsites == MAX_SITES)
		return NULL;
	site = MemoryContextAllocZero(node->scan.ss.ps.state->es_query_cxt, sizeof(CallSite));
	site->call = call;
	site->column = column;
	site->is_right = is_right;
	site->is_filter = IsFilter(node, call);
	node->sites[node->nsites++] = site;
	return site;
}

static bool
IsOperand(const CallSite *site, const Operand *operand)
{
	if (site->locale != operand->locale || site->operand_column != operand->column)
		return false;
	return operand->column >= 0 ||
		(site->operand.len == operand->cell.len && memcmp(site->operand.data, operand->cell.data, operand->cell.len) == 0);
}

static bool
IsFresh(const Ahead *node, const CallSite *site)
{
	return site->batch == node->batch && site->epoch == encdb_epoch;
}

static void
SetOperand(CallSite *site, const Operand *operand)
{
	Size		len = operand->column < 0 ? operand->cell.len : 0;

	if (site->allocated < len)
	{
		site->bytes = MemoryContextAlloc(GetMemoryChunkContext(site), len);
		site->allocated = len;
	}
	memcpy(site->bytes, operand->cell.data, len);
	site->operand = (PgsealBytes) {site->bytes, len};
	site->operand_column = operand->column;
	site->locale = operand->locale;
}

/* What was asked before told little: the next calls ask about themselves alone */
void
encdb_ahead_judge(Asking *asking)
{
	bool		enough = asking->nused >= ENOUGH || asking->nused * ONE_IN >= asking->nasked;

	if (asking->nasked > 1)
	{
		asking->wait = enough ? 0 : Min(2 * asking->wait + 1, MAX_WAIT);
		asking->pass = asking->wait;
	}
	asking->nasked = 0;
	asking->nused = 0;
}

/* Whether this call is to ask about its row alone */
bool
encdb_ahead_waits(Asking *asking)
{
	return asking->pass > 0 && asking->pass-- > 0;
}

void
encdb_ahead_asked(Ahead *node, Asking *asking, int ncells)
{
	asking->nasked = ncells;
	node->requests++;
	node->cells += ncells;
}

/* Whether an order, or a match, is what the operator wants */
static bool
Holds(const CallSite *site, int answer)
{
	PGFunction	function = site->call->fn_addr;
	int			order = site->is_right ? -answer : answer;
	int			plain;

	switch (encdb_comparison_sign(function, &plain))
	{
		case '=':
			return order == 0;
		case '!':
			return order != 0;
		case '<':
			return order < 0;
		case 'l':
			return order <= 0;
		case '>':
			return order > 0;
		case 'g':
			return order >= 0;
	}
	if (function == encdb_nlike || function == encdb_nilike || function == encdb_nregex || function == encdb_niregex ||
		function == encdb_nsimilar)
		return answer == 0;
	return answer != 0;
}

/* Whether a filter of the node is known to be false for a row, or NULL */
bool
encdb_ahead_fails(const Ahead *node, int row)
{
	if (encdb_ahead_filter_fails(node, row))
		return true;
	for (int i = 0; i < node->nsites; i++)
	{
		const CallSite *site = node->sites[i];
		int			answer = site->answers[row];

		if (!site->is_filter || !IsFresh(node, site) || answer == UNASKED || answer == PGSEAL_UNTOLD)
			continue;
		if (answer == IS_NULL || !Holds(site, answer))
			return true;
	}
	return false;
}

/* Without a cell to ask about there is no question */
static void
AddRow(const Ahead *node, CallSite *site, int row, Rows *rows)
{
	bool		is_null;

	if (encdb_ahead_cell(node, row, site->column, &rows->cells[rows->n], &is_null) &&
		(site->operand_column < 0 ||
		 encdb_ahead_cell(node, row, site->operand_column, &rows->operands[rows->n], &is_null)))
		rows->row[rows->n++] = row;
	else if (is_null)
		site->answers[row] = IS_NULL;
}

/* Asks about the rows from the current one on; false: refused */
static bool
EncdbAheadAsk(Ahead *node, CallSite *site, AskEach ask)
{
	static Rows rows;
	static int8 told[MAX_AHEAD];

	rows.n = 0;
	for (int row = node->current; row < EndOfRows(node); row++)
		if (row == node->current || !encdb_ahead_fails(node, row))
			AddRow(node, site, row, &rows);
	if (ask(site, &rows, told) != 0)
		return false;
	for (int i = 0; i < rows.n; i++)
		site->answers[rows.row[i]] = told[i];
	encdb_ahead_asked(node, &site->asking, rows.n);
	return true;
}

/* The answer about the row that was given last; false: there is none */
static bool
EncdbAheadAnswer(Ahead *node, CallSite *site, const Operand *operand, AskEach ask, int *answer)
{
	if (!IsFresh(node, site) || !IsOperand(site, operand))
	{
		site->varies |= site->batch == node->batch;
		encdb_ahead_judge(&site->asking);
		SetOperand(site, operand);
		memset(site->answers, UNASKED, sizeof(site->answers));
		site->batch = node->batch;
		site->epoch = encdb_epoch;
	}
	if (site->answers[node->current] == UNASKED &&
		(encdb_ahead_waits(&site->asking) || !EncdbAheadAsk(node, site, ask)))
		return false;
	*answer = site->answers[node->current];
	site->asking.nused++;
	return *answer != PGSEAL_UNTOLD;
}

static int
AskOrders(const CallSite *site, const Rows *rows, int8 *answers)
{
	bool		of_row = site->operand_column >= 0;

	return pgseal_compare_each(rows->cells, rows->n, of_row ? rows->operands : &site->operand, of_row ? rows->n : 1,
							   site->locale, answers);
}

static int
AskLike(const CallSite *site, const Rows *rows, int8 *answers)
{
	return pgseal_like_each(rows->cells, rows->n, site->operand, PGSEAL_LIKE, NULL, answers);
}

static int
AskIlike(const CallSite *site, const Rows *rows, int8 *answers)
{
	return pgseal_like_each(rows->cells, rows->n, site->operand, PGSEAL_ILIKE, site->locale, answers);
}

static int
AskPrefix(const CallSite *site, const Rows *rows, int8 *answers)
{
	return pgseal_like_each(rows->cells, rows->n, site->operand, PGSEAL_STARTS_WITH, NULL, answers);
}

static int
AskRegex(const CallSite *site, const Rows *rows, int8 *answers)
{
	return pgseal_like_each(rows->cells, rows->n, site->operand, PGSEAL_REGEX, site->locale, answers);
}

static int
AskIregex(const CallSite *site, const Rows *rows, int8 *answers)
{
	return pgseal_like_each(rows->cells, rows->n, site->operand, PGSEAL_IREGEX, site->locale, answers);
}

static int
AskSimilar(const CallSite *site, const Rows *rows, int8 *answers)
{
	return pgseal_like_each(rows->cells, rows->n, site->operand, PGSEAL_SIMILAR, site->locale, answers);
}

static int
AskWords(const CallSite *site, const Rows *rows, int8 *answers)
{
	return pgseal_like_each(rows->cells, rows->n, site->operand, PGSEAL_HAS_WORDS, site->locale, answers);
}

/* Of two rows the one that was given later: the other one is the same for many of its rows */
static Ahead *
EncdbAheadLater(Cell *left, Cell *right, int *column, bool *is_right)
{
	int			other_column;
	Ahead	   *node = encdb_ahead_node(left, column);
	Ahead	   *other = encdb_ahead_node(right, &other_column);

	*is_right = other != NULL && (node == NULL || other->given > node->given);
	if (!*is_right)
		return node;
	*column = other_column;
	return other;
}

bool
encdb_is_equality(const FmgrInfo *call)
{
	return call->fn_addr == encdb_eq || call->fn_addr == encdb_ne;
}

/* The order of two cells of which one was read ahead; false: to be asked alone. For equality any order but 0 is as good */
bool
encdb_ahead_order(const FmgrInfo *call, Cell *left, Cell *right, const char *locale, int *order)
{
	Operand		operand = {-1, CellBytes(right), locale};
	int			column;
	int			operand_column;
	bool		is_right;
	Ahead	   *node;
	CallSite   *site;
	bool		equal;

	if (!IsAhead())
		return false;
	node = EncdbAheadLater(left, right, &column, &is_right);
	if (node == NULL)
		return false;
	site = EncdbAheadSite(node, call, column, is_right);
	if (encdb_is_equality(call) && (site == NULL || site->varies || encdb_ahead_has_tag(node, column)))
	{
		if (!encdb_ahead_equal(left, right, &equal))
			return false;
		*order = equal ? 0 : 1;
		return true;
	}
	if (is_right)
		operand.cell = CellBytes(left);
	if (encdb_ahead_node(is_right ? left : right, &operand_column) == node)
		operand.column = operand_column;
	if (site == NULL || !EncdbAheadAnswer(node, site, &operand, AskOrders, order))
		return false;
	if (is_right)
		*order = -*order;
	return true;
}

bool
encdb_ahead_like(const FmgrInfo *call, Cell *text, Cell *pattern, int how, const char *locale, int *matches)
{
	static const AskEach ways[] = {[PGSEAL_LIKE] = AskLike,[PGSEAL_ILIKE] = AskIlike,[PGSEAL_STARTS_WITH] = AskPrefix,
	[PGSEAL_REGEX] = AskRegex,[PGSEAL_IREGEX] = AskIregex,[PGSEAL_SIMILAR] = AskSimilar,
	[PGSEAL_HAS_WORDS] = AskWords};
	Operand		operand = {-1, CellBytes(pattern), locale};
	int			column;
	int			other;
	Ahead	   *node;
	CallSite   *site;

	if (!IsAhead())
		return false;
	node = encdb_ahead_node(text, &column);
	site = node ? EncdbAheadSite(node, call, column, false) : NULL;
	return site != NULL && encdb_ahead_node(pattern, &other) != node &&
		EncdbAheadAnswer(node, site, &operand, ways[how], matches);
}
