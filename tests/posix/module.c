/* A module with a libpq of its own. */
#include <libpq-fe.h>
#include <stdio.h>

void attempt(void)
{
    const char *keywords[] = {"host", "port", "user", NULL}, *values[] = {"/dev/null", "1", "somebody", NULL};
    PGconn *all[] = {PQconnectdb("host=/dev/null port=1 user=somebody"), PQconnectdbParams(keywords, values, 0), PQconnectStartParams(keywords, values, 0)};

    for (int i = 0; i < 3; i++) {
        PQconninfoOption *info = PQconninfo(all[i]);

        printf("%s %s %s", PQuser(all[i]), info == NULL ? "none" : info->keyword, PQerrorMessage(all[i]));
        PQconninfoFree(info);
        PQfinish(all[i]);
    }
    fflush(stdout);
}
