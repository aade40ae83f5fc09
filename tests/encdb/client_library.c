/* What a program in C does with pgseal_client.h: it starts a client, connects with its connection string, and stops it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pgseal_client.h"

/* psql, for this program links no libpq. */
static int query(const char *conninfo, const char *sql)
{
	pid_t		child = fork();
	int			status = 0;

	if (child == 0)
	{
		execlp("psql", "psql", "-XAtq", "-d", conninfo, "-c", sql, (char *) NULL);
		_exit(127);
	}
	waitpid(child, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(int count, char **arguments)
{
	const char *keywords[] = {"server", "identity", "accept", NULL};
	const char *values[4] = {NULL};
	char	   *error = NULL;
	char		conninfo[4096], socket[4096];
	pgseal_client *client;

	for (int at = 1; at < count && at < 4; at++)
		values[at - 1] = arguments[at];
	if (pgseal_client_interface() != PGSEAL_CLIENT_INTERFACE || strchr(pgseal_client_version(), '.') == NULL)
		return 2;
	client = pgseal_client_start(keywords, values, &error);
	if (client == NULL)
	{
		fprintf(stderr, "%s\n", error);
		pgseal_client_free(error);
		return 3;
	}
	snprintf(conninfo, sizeof conninfo, "%s", pgseal_client_conninfo(client));
	snprintf(socket, sizeof socket, "%s/.s.PGSQL.%s", pgseal_client_parameter(client, "host"),
			 pgseal_client_parameter(client, "port"));
	if (pgseal_client_parameter(client, "colour") != NULL)
		return 7;
	if (access(socket, R_OK | W_OK) != 0 || query(conninfo, "SELECT name FROM person WHERE name = 'secretAda'") != 0)
		return 4;
	/* A child has not the thread: what it stops stays the parent's. */
	if (fork() == 0)
	{
		pgseal_client_stop(client);
		_exit(0);
	}
	wait(NULL);
	if (query(conninfo, "SELECT age FROM person WHERE age = 36") != 0)
		return 5;
	pgseal_client_stop(client);
	pgseal_client_stop(NULL);
	pgseal_client_free(NULL);
	return access(socket, F_OK) == 0 ? 6 : 0;
}
