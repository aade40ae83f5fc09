/*
 * deferred.h
 *	  What is summed of what is computed: the operands go into the sum, and the evaluator computes and sums in one.
 *
 * 1. deferred.c looks at plans for sums of programs (expression.c), and puts DEFERRED before the steps of these programs.
 * 2. encdb.computed gives such a program with its operands instead of a result. Nobody but the sum sees it.
 * 3. aggregate.c collects it like a cell. So nothing is sealed and opened between the program and the sum.
 */
#ifndef ENCDB_DEFERRED_H
#define ENCDB_DEFERRED_H

#include "encdb.h"

#include "nodes/plannodes.h"

/* Before the steps of a program whose result is a sum's */
#define DEFERRED			'!'

#define MAX_DEFERRED_OPERANDS	8
/* Programs that one sum has, in the branches of a CASE */
#define MAX_DEFERRED_PROGRAMS	8

/* A program with its operands */
typedef struct Deferred
{
	PgsealBytes program;
	int			noperands;
	PgsealBytes operands[MAX_DEFERRED_OPERANDS];
} Deferred;

/* deferred.c */
extern bool encdb_is_deferred(PgsealBytes value);
extern Datum encdb_deferred_datum(const Deferred *deferred);
extern void encdb_deferred_read(PgsealBytes value, Deferred *deferred);
extern void encdb_deferred_init(void);

/* expression.c */
extern Node *encdb_expression_deferred(Node *argument, List **functions);

/* aggregate.c */
extern bool encdb_is_sum(Oid aggregate);

#endif							/* ENCDB_DEFERRED_H */
