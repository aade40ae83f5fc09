/*
 * pgseal_client.h: encrypted columns inside a process.
 *
 * A client serves a unix socket from a thread of the process. Drivers that connect to it find their
 * server behind it, with encrypted columns opened and sealed by the owner's keys. The socket is in
 * a directory that only the user can enter, and goes with the client.
 *
 * All functions may be called from any thread. Strings are UTF-8 and end with a zero byte. After
 * fork, the child's connections are served by the parent; the child must not stop the client.
 */
#ifndef PGSEAL_CLIENT_H
#define PGSEAL_CLIENT_H

#ifdef __cplusplus
extern "C"
{
#endif

/* The number of this interface. It grows when a function changes. */
#define PGSEAL_CLIENT_INTERFACE 2

typedef struct pgseal_client pgseal_client;

/* The number of the interface that the library has, to compare with PGSEAL_CLIENT_INTERFACE. */
extern int	pgseal_client_interface(void);

/* Version and commit of the library. */
extern const char *pgseal_client_version(void);

/*
 * Starts a client. Keywords and values are parallel arrays, which end with a null keyword:
 *
 *   server     connection string of the server; what it leaves out is libpq's PG* variables
 *   identity   path of the identity file (default: $PGSEAL_IDENTITY)
 *   accept     software:KEY, or software (default: $PGSEAL_ACCEPT), or
 *   policy     path of a policy (default: $PGSEAL_POLICY)
 *   rules      hash of the rules that the evaluator must follow (default: any)
 *   trust_server_types   true: the server says which columns are encrypted where the identity has
 *              no list of them; false (the default): such a connection is refused
 *   session_pool         true: the server is behind a pool that gives each connection one of the
 *              server's up to its end; without it a pool before the server is refused
 *
 * Returns null on failure, and one sentence in *error, which is freed by pgseal_client_free.
 */
extern pgseal_client *pgseal_client_start(const char *const *keywords, const char *const *values,
										  char **error);

/* A connection string for libpq: the client's socket, and role, database and password of `server`. */
extern const char *pgseal_client_conninfo(const pgseal_client *client);

/*
 * What the connection string says of one keyword, for drivers that take no such string: host (the
 * directory of the socket), port, user, dbname, password, options. Null if it says nothing.
 */
extern const char *pgseal_client_parameter(const pgseal_client *client, const char *keyword);

/* Ends the client and its connections, and removes the socket. Null is ignored. */
extern void pgseal_client_stop(pgseal_client *client);

/* Frees a sentence of pgseal_client_start. Null is ignored. */
extern void pgseal_client_free(char *text);

#ifdef __cplusplus
}
#endif

#endif
