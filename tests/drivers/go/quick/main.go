package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/jackc/pgx/v5"
)

func main() {
	ctx := context.Background()
	connection, err := pgx.Connect(ctx, "")
	if err != nil {
		log.Fatal(err)
	}
	defer connection.Close(ctx)
	_, err = connection.Exec(ctx, "INSERT INTO customers (id, name, email, born) VALUES ($1, $2, $3, $4)",
		5, "Emil Example", "emil@example.org", time.Date(1994, 9, 21, 0, 0, 0, 0, time.UTC))
	if err != nil {
		log.Fatal(err)
	}
	var name string
	var born time.Time
	question := "SELECT name, born FROM customers WHERE email = $1"
	if err := connection.QueryRow(ctx, question, "emil@example.org").Scan(&name, &born); err != nil {
		log.Fatal(err)
	}
	fmt.Println(name, born.Format(time.DateOnly))
}
