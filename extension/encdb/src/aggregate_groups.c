/*
 * aggregate_groups.c
 *	  The results of many small groups by one request.
 *
 * A hash aggregate has the states of all its groups in one memory context, and no row comes any more when the first result is
 * asked for. So the states of that context whose cells are all collected end together: few at first, because a query may want
 * few groups. Where groups come one by one, as from a sort, a context has the aggregates of one group alone.
 *
 * A group that is refused is asked about alone, and raises its error when its own result is asked for.
 */
#include "aggregate.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#define FIRST_GROUPS	16
#define MAX_GROUPS		256

/* The states of a memory context that may end together */
typedef struct StateList
{
	MemoryContext context;
	dlist_head	states;
	int			wanted;			/* that end together the next time */
	MemoryContextCallback gone;
	struct StateList *next;
} StateList;

/* The groups of a request */
typedef struct Groups
{
	int			n;
	AggregateState *states[MAX_GROUPS];
	uint32		counts[MAX_GROUPS];
	AggregateValues values;
} Groups;

static StateList *lists = NULL;

static void
EncdbGroupsGone(void *list)
{
	StateList **link = &lists;

	while (*link != list)
		link = &(*link)->next;
	*link = ((StateList *) list)->next;
}

/* The list of a context, or NULL. The one that was looked for last is the first */
static StateList *
EncdbGroupsFind(MemoryContext context)
{
	for (StateList **link = &lists; *link != NULL; link = &(*link)->next)
	{
		StateList  *found = *link;

		if (found->context != context)
			continue;
		*link = found->next;
		found->next = lists;
		return lists = found;
	}
	return NULL;
}

/* Makes the list of a context, with which it goes */
static StateList *
EncdbGroupsMake(MemoryContext context)
{
	StateList  *list = MemoryContextAllocZero(context, sizeof(StateList));

	list->context = context;
	dlist_init(&list->states);
	list->wanted = FIRST_GROUPS;
	list->gone.func = EncdbGroupsGone;
	list->gone.arg = list;
	MemoryContextRegisterResetCallback(context, &list->gone);
	list->next = lists;
	return lists = list;
}

/* Adds a state that was just made */
void
encdb_aggregate_enlist(AggregateState *state)
{
	StateList  *list = EncdbGroupsFind(state->context);

	if (list == NULL)
		list = EncdbGroupsMake(state->context);
	dlist_push_tail(&list->states, &state->link);
	state->listed = true;
}

static void
Unlist(AggregateState *state)
{
	dlist_delete(&state->link);
	state->listed = false;
}

/* Whether a state's cells are all here */
static bool
IsCollected(const AggregateState *state)
{
	return !state->ended && state->number == 0 && state->nvalues > 0;
}

static bool
IsAlike(const AggregateState *a, const AggregateState *b)
{
	return a->kind == b->kind && (a->locale == b->locale || (a->locale && b->locale && strcmp(a->locale, b->locale) == 0));
}

static bool
AddGroup(Groups *groups, int wanted, AggregateState *state)
{
	if (groups->n == wanted || !encdb_aggregate_add(&groups->values, state))
		return false;
	groups->states[groups->n] = state;
	groups->counts[groups->n++] = (uint32) (state->nvalues / state->width);
	return true;
}

/* Takes the state off the list, and others that end with it. What cannot end so any more goes, too */
static void
TakeGroups(StateList *list, AggregateState *first, Groups *groups)
{
	dlist_mutable_iter each;

	groups->n = 0;
	groups->values.nprograms = 0;
	groups->values.nvalues = 0;
	groups->values.ncells = 0;
	Unlist(first);
	AddGroup(groups, list->wanted, first);
	dlist_foreach_modify(each, &list->states)
	{
		AggregateState *state = dlist_container(AggregateState, link, each.cur);

		if (IsCollected(state) && !IsAlike(first, state))
			continue;
		if (IsCollected(state) && !AddGroup(groups, list->wanted, state))
			break;
		Unlist(state);
	}
	list->wanted = Min(2 * list->wanted, MAX_GROUPS);
}

/* Ends a state with others; false: it is to be asked about alone */
bool
encdb_aggregate_end_groups(AggregateState *state)
{
	static Groups groups;
	static PgsealComputed results[MAX_GROUPS];
	StateList  *list = EncdbGroupsFind(state->context);
	PgsealBatch batch;

	if (encdb_evaluator != EVALUATOR_ISOLATED || list == NULL || !state->listed || !IsCollected(state))
		return false;
	if (!Attached())
	{
		/* A cancel cuts the wait for an evaluator short, but not the one of who asks next */
		CHECK_FOR_INTERRUPTS();
		return false;
	}
	TakeGroups(list, state, &groups);
	batch = encdb_aggregate_batch(&groups.values, state->kind, state->locale);
	if (groups.n == 1 || pgseal_aggregate_each(&batch, groups.counts, groups.n, results) != 0)
		return false;
	for (int i = 0; i < groups.n; i++)
		if (results[i].told)
			encdb_aggregate_keep(groups.states[i], results[i].cell);
	return state->ended;
}
