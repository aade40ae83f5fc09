/*
 * Preloaded after the library, it makes of a libpq one that was built without TLS: that has no TLS library to name, and refuses
 * every sslmode that asks for TLS before it connects. The message is another one.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>

typedef void *(*connect_params) (const char *const *, const char *const *, int);

const char *
PQsslAttribute(void *connection, const char *name)
{
	(void) connection;
	(void) name;
	return NULL;
}

static void *
without_tls(const char *function, const char *const *keywords, const char *const *values, int expand_dbname)
{
	static const char *const refused[] = {"sslmode", NULL};
	static const char *const mode[] = {"SSL support is not compiled in", NULL};
	connect_params next = (connect_params) dlsym(RTLD_NEXT, function);
	int			asked = 0;

	for (int i = 0; keywords[i] != NULL; i++)
		if (strcmp(keywords[i], "sslmode") == 0 && values[i] != NULL)
			asked = strcmp(values[i], "require") == 0 || strncmp(values[i], "verify", 6) == 0;
	return asked ? next(refused, mode, 0) : next(keywords, values, expand_dbname);
}

void *
PQconnectdbParams(const char *const *keywords, const char *const *values, int expand_dbname)
{
	return without_tls("PQconnectdbParams", keywords, values, expand_dbname);
}

void *
PQconnectStartParams(const char *const *keywords, const char *const *values, int expand_dbname)
{
	return without_tls("PQconnectStartParams", keywords, values, expand_dbname);
}
