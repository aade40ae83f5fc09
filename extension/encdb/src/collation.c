/*
 * collation.c
 *	  PostgreSQL's collations, as the evaluator knows them: byte order (NULL), or the names of
 *	  libc locales. Those of the builtin provider all order bytes.
 */
#include "encdb.h"

#include <wctype.h>

#include "catalog/pg_collation.h"
#include "catalog/pg_database.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

typedef struct KnownCollation
{
	Oid			collation;		/* hash key */
	char	   *collate;
	char	   *ctype;
	bool		no_case;		/* the evaluator has none of its letters */
	bool		no_rules;		/* nor of its rules at all */
} KnownCollation;

/* Where a collation, or a database's default, is described */
typedef struct Description
{
	int			cache;
	Oid			oid;
	AttrNumber	provider;
	AttrNumber	collate;
	AttrNumber	ctype;
	AttrNumber	locale;			/* of the builtin provider */
} Description;

static HTAB *known = NULL;
static KnownCollation *last = NULL;

static void
EncdbCollationForget(Datum arg, int cacheid, uint32 hashvalue)
{
	last = NULL;
	if (known)
		hash_destroy(known);
	known = NULL;
}

void
encdb_collation_init(void)
{
	CacheRegisterSyscacheCallback(COLLOID, EncdbCollationForget, (Datum) 0);
}

static Description
EncdbCollationDescribe(Oid collation)
{
	Description description = {COLLOID, collation, Anum_pg_collation_collprovider,
	Anum_pg_collation_collcollate, Anum_pg_collation_collctype, 0};

#if PG_VERSION_NUM >= 170000
	description.locale = Anum_pg_collation_colllocale;
#endif
	if (collation == DEFAULT_COLLATION_OID)
	{
		description = (Description) {DATABASEOID, MyDatabaseId, Anum_pg_database_datlocprovider,
			Anum_pg_database_datcollate, Anum_pg_database_datctype, 0};
#if PG_VERSION_NUM >= 170000
		description.locale = Anum_pg_database_datlocale;
#endif
	}
	return description;
}

/* A name of the description; NULL for the byte order of C and POSIX */
static char *
LocaleName(Description *description, HeapTuple tuple, AttrNumber attribute)
{
	bool		isnull;
	Datum		value = SysCacheGetAttr(description->cache, tuple, attribute, &isnull);
	char	   *name;

	if (isnull)
		return NULL;
	name = TextDatumGetCString(value);
	if (strcmp(name, "C") == 0 || strcmp(name, "POSIX") == 0)
		return NULL;
	return MemoryContextStrdup(TopMemoryContext, name);
}

/* Letters of the builtin C.UTF-8 are those of libc's; nothing takes the place of the full mapping of PG_UNICODE_FAST */
static void
ResolveBuiltin(KnownCollation *entry, char *locale)
{
	entry->no_case = locale && strcmp(locale, "PG_UNICODE_FAST") == 0;
	entry->ctype = locale;
}

static void
EncdbCollationResolve(KnownCollation *entry)
{
	Description description = EncdbCollationDescribe(entry->collation);
	HeapTuple	tuple = SearchSysCache1(description.cache, ObjectIdGetDatum(description.oid));
	bool		isnull;
	char		provider;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for collation %u", entry->collation);
	provider = DatumGetChar(SysCacheGetAttr(description.cache, tuple, description.provider, &isnull));
	if (provider == 'b')
		ResolveBuiltin(entry, LocaleName(&description, tuple, description.locale));
	else if (provider == COLLPROVIDER_LIBC)
	{
		entry->collate = LocaleName(&description, tuple, description.collate);
		entry->ctype = LocaleName(&description, tuple, description.ctype);
	}
	else
		entry->no_rules = true;
	ReleaseSysCache(tuple);
}

static KnownCollation *
EncdbCollationLook(Oid collation)
{
	HASHCTL		control = {.keysize = sizeof(Oid),.entrysize = sizeof(KnownCollation)};
	KnownCollation *entry;
	KnownCollation fresh = {collation};
	bool		found;

	if (last && last->collation == collation)
		return last;
	if (!known)
		known = hash_create("encdb collations", 16, &control, HASH_ELEM | HASH_BLOBS);
	entry = hash_search(known, &collation, HASH_FIND, NULL);
	if (entry)
		return last = entry;
	/* May look at catalogs, and so forget all that is known */
	EncdbCollationResolve(&fresh);
	if (!known)
		known = hash_create("encdb collations", 16, &control, HASH_ELEM | HASH_BLOBS);
	entry = hash_search(known, &collation, HASH_ENTER, &found);
	*entry = fresh;
	return last = entry;
}

static KnownCollation *
EncdbCollationFind(Oid collation)
{
	KnownCollation *found;

	if (!OidIsValid(collation))
		ereport(ERROR,
				(errcode(ERRCODE_INDETERMINATE_COLLATION),
				 errmsg("could not determine which collation to use for encrypted text"),
				 errhint("Use the COLLATE clause to set the collation explicitly.")));
	found = EncdbCollationLook(collation);
	if (found->no_rules)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("encrypted text is compared under collations of libc only"),
				 errhint("Give the column a collation of provider libc, or COLLATE \"C\".")));
	return found;
}

/* Whether encdb_locale() knows the rules of a collation */
bool
encdb_has_rules(Oid collation)
{
	return OidIsValid(collation) && !EncdbCollationLook(collation)->no_rules;
}

/* Whether encdb_ctype() knows the letters of a collation */
bool
encdb_has_ctype(Oid collation)
{
	return encdb_has_rules(collation) && !EncdbCollationLook(collation)->no_case;
}

/* The locale that orders text under a collation */
const char *
encdb_locale(Oid collation)
{
	/* Spares the look-up of what nearly every key of an index has */
	if (collation == C_COLLATION_OID)
		return NULL;
	return EncdbCollationFind(collation)->collate;
}

static void
RefuseLetters(const KnownCollation *found)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("encrypted text has no upper and lower case under the locale %s", found->ctype),
			 errhint("Give the column a collation of provider libc, or COLLATE \"C\".")));
}

/* The locale whose letters a regular expression knows. In the database's own, PostgreSQL gives ASCII's letters the cases of C */
const char *
encdb_regex_ctype(Oid collation, bool insensitive)
{
	const char *locale = encdb_ctype(collation);

	if (insensitive && collation == DEFAULT_COLLATION_OID && locale && towlower(L'I') != L'i')
		RefuseLetters(EncdbCollationFind(collation));
	return locale;
}

/* The locale that knows upper and lower case */
const char *
encdb_ctype(Oid collation)
{
	KnownCollation *found;

	if (collation == C_COLLATION_OID)
		return NULL;
	found = EncdbCollationFind(collation);
	if (found->no_case)
		RefuseLetters(found);
	return found->ctype;
}
