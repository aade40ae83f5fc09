// Runs the scenarios with pgx, by itself or below database/sql (tests/drivers/scenarios.py says what is in the file, and what
// is printed), through the package of bindings/go if the file has its options. Usage: drivers pgx|pgx-text|sql CONFIG
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"

	"github.com/jackc/pgx/v5"
	"pgseal.org/pgseal"
)

// Step is one thing that a driver does.
type Step struct {
	Name, Do, SQL string
	Types         []string
	Values        []any
	Batch         [][]any
	Gives         []string
	Rows          [][]any
	Text          string
}

// Scenario is a list of steps.
type Scenario struct {
	Name  string
	Steps []Step
}

// Config is the file.
type Config struct {
	Host      string
	Port      int
	Inside    *pgseal.Options
	Scenarios []Scenario
}

// Result is what came back: rows and the OIDs of their types, or a count.
type Result struct {
	Rows  [][]any
	OIDs  []uint32
	Count int64
}

// Driver does what steps say.
type Driver interface {
	Execute(step Step, values []any) (Result, error)
	Many(step Step, batch [][]any) (int64, error)
	Together(step Step, batch [][]any) (Result, error)
	Again(step Step, batch [][]any) (Result, error)
	Cursor(step Step, values []any) (Result, error)
	Transaction(what string) error
	Mark(what, name string) error
	CopyIn(step Step, batch [][]any) (int64, error)
	CopyOut(step Step) (string, error)
	Cancel(step Step, values []any) (Result, error)
	Code(err error) string
	Close()
}

func main() {
	text, err := os.ReadFile(os.Args[len(os.Args)-1])
	check(err)
	var config Config
	check(json.Unmarshal(text, &config))
	address := "host=" + config.Host + " port=" + strconv.Itoa(config.Port) + " user=postgres dbname=postgres"
	of, err := pgx.ParseConfig(address)
	if config.Inside != nil {
		client, failed := pgseal.Start(*config.Inside)
		check(failed)
		defer client.Stop()
		address = client.ConnString()
		// Nothing leads past the client.
		of, err = client.ConnConfig("host=past.invalid sslmode=require")
	}
	check(err)
	var driver Driver
	switch os.Args[1] {
	case "sql":
		driver = openSQL(address)
	default:
		driver = openPgx(of, os.Args[1] == "pgx-text")
	}
	defer driver.Close()
	for _, scenario := range config.Scenarios {
		for _, step := range scenario.Steps {
			run(driver, scenario.Name+"/"+step.Name, step)
		}
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(driver Driver, name string, step Step) {
	result, err := done(driver, step)
	said := map[string]any{"step": name}
	switch {
	case err != nil:
		said["error"], said["message"] = driver.Code(err), err.Error()
	case step.Rows == nil:
		said["count"] = result.Count
	default:
		rows := make([][]any, 0, len(result.Rows))
		for _, row := range result.Rows {
			rows = append(rows, shownAll(row, step.Gives))
		}
		said["rows"], said["oids"] = rows, result.OIDs
	}
	check(json.NewEncoder(os.Stdout).Encode(said))
}

func done(driver Driver, step Step) (Result, error) {
	values := natives(step.Types, step.Values)
	batch := make([][]any, len(step.Batch))
	for at, row := range step.Batch {
		batch[at] = natives(step.Types, row)
	}
	switch step.Do {
	case "begin", "commit", "rollback":
		return Result{}, driver.Transaction(step.Do)
	case "savepoint", "release", "back":
		return Result{}, driver.Mark(step.Do, step.SQL)
	case "many":
		count, err := driver.Many(step, batch)
		return Result{Count: count}, err
	case "together":
		return driver.Together(step, batch)
	case "again":
		return driver.Again(step, batch)
	case "cursor":
		return driver.Cursor(step, values)
	case "copy_in":
		count, err := driver.CopyIn(step, batch)
		return Result{Count: count}, err
	case "copy_out":
		text, err := driver.CopyOut(step)
		return Result{Rows: [][]any{{text}}}, err
	case "cancel":
		return driver.Cancel(step, values)
	default:
		return driver.Execute(step, values)
	}
}
