package main

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Pgx is one connection. Statements are prepared and kept by the driver, or, as text, sent as simple queries with literals.
type Pgx struct {
	connection *pgx.Conn
	outer      pgx.Tx
	marks      []pgx.Tx
}

var background = context.Background()

func openPgx(config *pgx.ConnConfig, asText bool) *Pgx {
	if asText {
		config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	}
	connection, err := pgx.ConnectConfig(background, config)
	check(err)
	return &Pgx{connection: connection}
}

// Close ends the connection.
func (driver *Pgx) Close() {
	check(driver.connection.Close(background))
}

// Code is the SQLSTATE of an error.
func (driver *Pgx) Code(err error) string {
	var known *pgconn.PgError
	if errors.As(err, &known) {
		return known.Code
	}
	return "client"
}

func collected(rows pgx.Rows, err error) (Result, error) {
	if err != nil {
		return Result{}, err
	}
	defer rows.Close()
	result := Result{}
	for rows.Next() {
		row, err := rows.Values()
		if err != nil {
			return Result{}, err
		}
		result.Rows = append(result.Rows, row)
	}
	for _, field := range rows.FieldDescriptions() {
		result.OIDs = append(result.OIDs, field.DataTypeOID)
	}
	return result, rows.Err()
}

// Execute runs a statement.
func (driver *Pgx) Execute(step Step, values []any) (Result, error) {
	if step.Rows != nil {
		return collected(driver.connection.Query(background, step.SQL, values...))
	}
	tag, err := driver.connection.Exec(background, step.SQL, values...)
	return Result{Count: tag.RowsAffected()}, err
}

func (driver *Pgx) sent(step Step, batch [][]any) pgx.BatchResults {
	all := &pgx.Batch{}
	for _, values := range batch {
		all.Queue(step.SQL, values...)
	}
	return driver.connection.SendBatch(background, all)
}

// Many sends a batch.
func (driver *Pgx) Many(step Step, batch [][]any) (int64, error) {
	results, count := driver.sent(step, batch), int64(0)
	for range batch {
		tag, err := results.Exec()
		if err != nil {
			_ = results.Close()
			return 0, err
		}
		count += tag.RowsAffected()
	}
	return count, results.Close()
}

// Together sends a batch of queries.
func (driver *Pgx) Together(step Step, batch [][]any) (Result, error) {
	results, all := driver.sent(step, batch), Result{}
	for range batch {
		result, err := collected(results.Query())
		if err != nil {
			_ = results.Close()
			return Result{}, err
		}
		all.Rows, all.OIDs = append(all.Rows, result.Rows...), result.OIDs
	}
	return all, results.Close()
}

// Again prepares a statement under a name and executes it.
func (driver *Pgx) Again(step Step, batch [][]any) (Result, error) {
	named, all := step, Result{}
	if driver.connection.Config().DefaultQueryExecMode != pgx.QueryExecModeSimpleProtocol {
		named.SQL = step.Name
		if _, err := driver.connection.Prepare(background, step.Name, step.SQL); err != nil {
			return Result{}, err
		}
	}
	for _, values := range batch {
		result, err := driver.Execute(named, values)
		if err != nil {
			return Result{}, err
		}
		all.Rows, all.OIDs = append(all.Rows, result.Rows...), result.OIDs
	}
	return all, nil
}

// Cursor declares a cursor: pgx has none of its own.
func (driver *Pgx) Cursor(step Step, values []any) (Result, error) {
	transaction, err := driver.connection.Begin(background)
	if err != nil {
		return Result{}, err
	}
	defer func() { _ = transaction.Rollback(background) }()
	if _, err := transaction.Exec(background, "DECLARE c CURSOR FOR "+step.SQL, values...); err != nil {
		return Result{}, err
	}
	all := Result{}
	for {
		result, err := collected(transaction.Query(background, "FETCH 2 FROM c"))
		if err != nil || len(result.Rows) == 0 {
			return all, err
		}
		all.Rows, all.OIDs = append(all.Rows, result.Rows...), result.OIDs
	}
}

// Transaction begins or ends one.
func (driver *Pgx) Transaction(what string) (err error) {
	switch what {
	case "begin":
		driver.outer, err = driver.connection.Begin(background)
		return err
	case "commit":
		return driver.outer.Commit(background)
	default:
		return driver.outer.Rollback(background)
	}
}

// Mark is a transaction within one.
func (driver *Pgx) Mark(what, _ string) error {
	if what == "savepoint" {
		mark, err := driver.outer.Begin(background)
		driver.marks = append(driver.marks, mark)
		return err
	}
	last := len(driver.marks) - 1
	mark := driver.marks[last]
	driver.marks = driver.marks[:last]
	if what == "release" {
		return mark.Commit(background)
	}
	return mark.Rollback(background)
}

var copied = regexp.MustCompile(`COPY (\w+) \((.*)\) FROM`)

// CopyIn sends rows in binary, for which pgx asks the types of the columns.
func (driver *Pgx) CopyIn(step Step, batch [][]any) (int64, error) {
	parts := copied.FindStringSubmatch(step.SQL)
	columns := strings.Split(parts[2], ", ")
	return driver.connection.CopyFrom(background, pgx.Identifier{parts[1]}, columns, pgx.CopyFromRows(batch))
}

// CopyOut reads the text.
func (driver *Pgx) CopyOut(step Step) (string, error) {
	var out strings.Builder
	_, err := driver.connection.PgConn().CopyTo(background, &out, step.SQL)
	return out.String(), err
}

// Cancel asks the server to cancel, and waits until it has done so: it signals twice, and a second
// signal that comes late would cancel the next statement.
func (driver *Pgx) Cancel(step Step, values []any) (Result, error) {
	requested := make(chan error, 1)
	time.AfterFunc(300*time.Millisecond, func() {
		requested <- driver.connection.PgConn().CancelRequest(background)
	})
	result, err := driver.Execute(step, values)
	check(<-requested)
	return result, err
}
