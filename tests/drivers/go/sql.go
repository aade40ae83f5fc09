package main

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	_ "github.com/jackc/pgx/v5/stdlib"
)

// SQL is database/sql with one connection.
type SQL struct {
	connection *sql.Conn
	pool       *sql.DB
	outer      *sql.Tx
}

type queryer interface {
	QueryContext(context.Context, string, ...any) (*sql.Rows, error)
	ExecContext(context.Context, string, ...any) (sql.Result, error)
	PrepareContext(context.Context, string) (*sql.Stmt, error)
}

func openSQL(address string) *SQL {
	pool, err := sql.Open("pgx", address)
	check(err)
	connection, err := pool.Conn(background)
	check(err)
	return &SQL{connection: connection, pool: pool}
}

// Close ends the connection.
func (driver *SQL) Close() {
	check(driver.connection.Close())
	check(driver.pool.Close())
}

// Code is the SQLSTATE of an error.
func (driver *SQL) Code(err error) string {
	var known *pgconn.PgError
	if errors.As(err, &known) {
		return known.Code
	}
	return "client"
}

func (driver *SQL) on() queryer {
	if driver.outer != nil {
		return driver.outer
	}
	return driver.connection
}

// The driver below knows the types of values; database/sql passes what it does not know as text.
func scanned(rows *sql.Rows, kinds []string) (Result, error) {
	defer rows.Close()
	types, result := pgtype.NewMap(), Result{}
	for rows.Next() {
		row, targets := make([]any, len(kinds)), make([]any, len(kinds))
		var texts []*string
		var numbers []*int32
		for at, kind := range kinds {
			switch kind {
			case "text[]":
				targets[at] = types.SQLScanner(&texts)
			case "int4[]":
				targets[at] = types.SQLScanner(&numbers)
			default:
				targets[at] = &row[at]
			}
		}
		if err := rows.Scan(targets...); err != nil {
			return Result{}, err
		}
		for at, kind := range kinds {
			if kind == "text[]" {
				row[at] = list(texts)
			} else if kind == "int4[]" {
				row[at] = list(numbers)
			}
		}
		result.Rows = append(result.Rows, row)
	}
	return result, rows.Err()
}

func list[T any](items []*T) any {
	if items == nil {
		return nil
	}
	all := make([]any, len(items))
	for at, item := range items {
		if item != nil {
			all[at] = *item
		}
	}
	return all
}

// Execute runs a statement.
func (driver *SQL) Execute(step Step, values []any) (Result, error) {
	if step.Rows != nil {
		rows, err := driver.on().QueryContext(background, step.SQL, values...)
		if err != nil {
			return Result{}, err
		}
		return scanned(rows, step.Gives)
	}
	done, err := driver.on().ExecContext(background, step.SQL, values...)
	if err != nil {
		return Result{}, err
	}
	count, err := done.RowsAffected()
	return Result{Count: count}, err
}

// Many executes a prepared statement: database/sql has no batches.
func (driver *SQL) Many(step Step, batch [][]any) (int64, error) {
	statement, err := driver.on().PrepareContext(background, step.SQL)
	if err != nil {
		return 0, err
	}
	defer statement.Close()
	total := int64(0)
	for _, values := range batch {
		done, err := statement.ExecContext(background, values...)
		if err != nil {
			return 0, err
		}
		count, err := done.RowsAffected()
		if err != nil {
			return 0, err
		}
		total += count
	}
	return total, nil
}

// Together is Again: database/sql has no batches.
func (driver *SQL) Together(step Step, batch [][]any) (Result, error) {
	return driver.Again(step, batch)
}

// Again executes a prepared statement.
func (driver *SQL) Again(step Step, batch [][]any) (Result, error) {
	statement, err := driver.on().PrepareContext(background, step.SQL)
	if err != nil {
		return Result{}, err
	}
	defer statement.Close()
	all := Result{}
	for _, values := range batch {
		rows, err := statement.QueryContext(background, values...)
		if err != nil {
			return Result{}, err
		}
		result, err := scanned(rows, step.Gives)
		if err != nil {
			return Result{}, err
		}
		all.Rows = append(all.Rows, result.Rows...)
	}
	return all, nil
}

// Cursor declares a cursor within a transaction.
func (driver *SQL) Cursor(step Step, values []any) (Result, error) {
	check(driver.Transaction("begin"))
	defer func() { check(driver.Transaction("rollback")) }()
	if _, err := driver.outer.ExecContext(background, "DECLARE c CURSOR FOR "+step.SQL, values...); err != nil {
		return Result{}, err
	}
	all, fetch := Result{}, step
	fetch.SQL = "FETCH 2 FROM c"
	for {
		result, err := driver.Execute(fetch, nil)
		if err != nil || len(result.Rows) == 0 {
			return all, err
		}
		all.Rows = append(all.Rows, result.Rows...)
	}
}

// Transaction begins or ends one.
func (driver *SQL) Transaction(what string) (err error) {
	if what == "begin" {
		driver.outer, err = driver.connection.BeginTx(background, nil)
		return err
	}
	ended := driver.outer
	driver.outer = nil
	if what == "commit" {
		return ended.Commit()
	}
	return ended.Rollback()
}

// Mark sends a statement: database/sql has no savepoints.
func (driver *SQL) Mark(what, name string) error {
	statement := map[string]string{"savepoint": "SAVEPOINT ", "release": "RELEASE SAVEPOINT ", "back": "ROLLBACK TO SAVEPOINT "}
	_, err := driver.outer.ExecContext(background, statement[what]+name)
	return err
}

var errNoCopy = errors.New("database/sql has no COPY")

// CopyIn is not there.
func (driver *SQL) CopyIn(Step, [][]any) (int64, error) {
	return 0, errNoCopy
}

// CopyOut is not there.
func (driver *SQL) CopyOut(Step) (string, error) {
	return "", errNoCopy
}

// Cancel ends the context; pgx closes the connection then, so this one has its own.
func (driver *SQL) Cancel(step Step, values []any) (Result, error) {
	ended, stop := context.WithTimeout(background, 300*time.Millisecond)
	defer stop()
	rows, err := driver.pool.QueryContext(ended, step.SQL, values...)
	if err != nil {
		return Result{}, err
	}
	return scanned(rows, step.Gives)
}
