/*
 * rank.c
 *	  The ranks of any number of cells, by requests of a bounded size.
 *
 * What fits into one request is ranked by it. More is cut by pivots, some of the
 * cells themselves: a first pass ranks the pivots with every chunk of the others,
 * which puts each cell into a bucket, between two pivots or equal to one; a
 * second ranks neighbouring buckets, as many at a time as fit. Equal values have
 * the same pivots below and beside them, and so meet in one bucket.
 */
#include "encdb.h"

#include "miscadmin.h"
#include "utils/memutils.h"

/* What a request takes, with room for the lengths */
#define MOST_BYTES	(7 * 1024 * 1024)
#define MOST_CELLS	(160 * 1024)
#define PIVOTS		512

typedef struct Work
{
	const PgsealBytes *cells;
	int			ncells;
	const char *locale;
	PgsealBytes *request;		/* cells of a request */
	int		   *number;			/* which ones */
	int			nrequest;
	int			most;			/* room for so many */
	Size		nbytes;
	uint32	   *ranks;			/* of the request's cells */
	bool		refused;
} Work;

static bool
EncdbRankFits(const Work *work, PgsealBytes cell)
{
	return work->nrequest < work->most && work->nbytes + cell.len + sizeof(uint32) <= MOST_BYTES;
}

static void
EncdbRankAdd(Work *work, int number)
{
	work->number[work->nrequest] = number;
	work->request[work->nrequest++] = work->cells[number];
	work->nbytes += work->cells[number].len + sizeof(uint32);
}

/* What is refused is raised by the comparison that follows, if one does */
static void
EncdbRankAsk(Work *work)
{
	CHECK_FOR_INTERRUPTS();
	if (work->refused || !ENCDB_TRY(pgseal_rank(work->request, work->nrequest, work->locale, work->ranks)))
	{
		work->refused = true;
		memset(work->ranks, 0, work->nrequest * sizeof(uint32));
	}
}

static void
EncdbRankClear(Work *work, int keep)
{
	work->nrequest = keep;
	work->nbytes = 0;
	for (int i = 0; i < keep; i++)
		work->nbytes += work->request[i].len + sizeof(uint32);
}

static int
CompareRanks(const void *left, const void *right)
{
	uint32		a = *(const uint32 *) left;
	uint32		b = *(const uint32 *) right;

	return (a > b) - (a < b);
}

/* Twice the pivots below a rank, and one more if there is a pivot of this rank */
static int
BucketOf(uint32 rank, const uint32 *pivots, int npivots)
{
	int			low = 0;
	int			high = npivots;

	while (low < high)
	{
		int			middle = (low + high) / 2;

		if (pivots[middle] < rank)
			low = middle + 1;
		else
			high = middle;
	}
	return 2 * low + (low < npivots && pivots[low] == rank ? 1 : 0);
}

/* First pass: the bucket of each cell. False: the pivots alone do not fit */
static bool
EncdbRankDistribute(Work *work, int npivots, int *buckets)
{
	uint32	   *pivots = palloc(npivots * sizeof(uint32));
	int			next = 0;

	for (int i = 0; i < npivots; i++)
	{
		int			number = (int) ((int64) i * work->ncells / npivots);

		if (!EncdbRankFits(work, work->cells[number]))
			return false;
		EncdbRankAdd(work, number);
	}
	while (next < work->ncells)
	{
		EncdbRankClear(work, npivots);
		while (next < work->ncells && EncdbRankFits(work, work->cells[next]))
			EncdbRankAdd(work, next++);
		if (work->nrequest == npivots)
			return false;
		EncdbRankAsk(work);
		memcpy(pivots, work->ranks, npivots * sizeof(uint32));
		qsort(pivots, npivots, sizeof(uint32), CompareRanks);
		for (int i = npivots; i < work->nrequest; i++)
			buckets[work->number[i]] = BucketOf(work->ranks[i], pivots, npivots);
	}
	pfree(pivots);
	return true;
}

/* The numbers of the cells by their buckets; starts[b] is where bucket b begins */
static int *
ByBucket(const Work *work, int nbuckets, const int *buckets, int *starts)
{
	int		   *order = palloc_extended(work->ncells * sizeof(int), MCXT_ALLOC_HUGE);
	int		   *place = palloc(nbuckets * sizeof(int));

	memset(starts, 0, (nbuckets + 1) * sizeof(int));
	for (int i = 0; i < work->ncells; i++)
		starts[buckets[i] + 1]++;
	for (int i = 0; i < nbuckets; i++)
		starts[i + 1] += starts[i];
	memcpy(place, starts, nbuckets * sizeof(int));
	for (int i = 0; i < work->ncells; i++)
		order[place[buckets[i]]++] = i;
	pfree(place);
	return order;
}

/* Ranks what is in the request above all that was ranked before */
static uint32
RankRequest(Work *work, uint32 base, uint32 *ranks)
{
	uint32		next = base;

	if (work->nrequest > 0)
		EncdbRankAsk(work);
	for (int i = 0; i < work->nrequest; i++)
	{
		ranks[work->number[i]] = base + work->ranks[i];
		next = Max(next, base + work->ranks[i] + 1);
	}
	EncdbRankClear(work, 0);
	return next;
}

/* Second pass. False: a bucket does not fit */
static bool
RankBuckets(Work *work, int nbuckets, const int *order, const int *starts, uint32 *ranks)
{
	uint32		base = 0;

	EncdbRankClear(work, 0);
	for (int bucket = 0; bucket < nbuckets; bucket++)
	{
		int			begun = work->nrequest;
		int			at = starts[bucket];

		/* All of an odd bucket are equal: its first represents them */
		int			end = bucket % 2 == 1 ? Min(at + 1, starts[bucket + 1]) : starts[bucket + 1];

		while (at < end && EncdbRankFits(work, work->cells[order[at]]))
			EncdbRankAdd(work, order[at++]);
		if (at == end)
			continue;
		if (begun == 0)
			return false;
		/* The bucket begins the next request */
		EncdbRankClear(work, begun);
		base = RankRequest(work, base, ranks);
		bucket--;
	}
	RankRequest(work, base, ranks);
	for (int bucket = 1; bucket < nbuckets; bucket += 2)
		for (int at = starts[bucket] + 1; at < starts[bucket + 1]; at++)
			ranks[order[at]] = ranks[order[starts[bucket]]];
	return true;
}

static bool
RankMany(Work *work, uint32 *ranks)
{
	int			npivots = Min(PIVOTS, work->ncells / 2);
	int			nbuckets = 2 * npivots + 1;
	int		   *buckets = palloc_extended(work->ncells * sizeof(int), MCXT_ALLOC_HUGE);
	int		   *starts = palloc((nbuckets + 1) * sizeof(int));

	if (!EncdbRankDistribute(work, npivots, buckets))
		return false;
	return RankBuckets(work, nbuckets, ByBucket(work, nbuckets, buckets, starts), starts, ranks);
}

/* False: it is refused, or the cells are too long, or too many of them too alike, for requests of our size */
bool
encdb_rank(const PgsealBytes *cells, int ncells, const char *locale, uint32 *ranks)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "encdb ranks",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);

	/* The first pass repeats the pivots beside all cells */
	int			most = (int) Min((int64) ncells + PIVOTS, MOST_CELLS);
	Work		work = {cells, ncells, locale,.most = most};
	bool		ranked = true;
	int			number = 0;

	work.request = palloc(most * sizeof(PgsealBytes));
	work.number = palloc(most * sizeof(int));
	work.ranks = palloc(most * sizeof(uint32));
	while (number < ncells && EncdbRankFits(&work, cells[number]))
		EncdbRankAdd(&work, number++);
	if (number == ncells)
		RankRequest(&work, 0, ranks);
	else
	{
		EncdbRankClear(&work, 0);
		ranked = RankMany(&work, ranks);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	return ranked && !work.refused;
}
