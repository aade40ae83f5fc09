// Package pgseal gives pgx encrypted columns of PostgreSQL, inside the process. A thread of the library libpgseal_client.so stands
// between driver and server; it encrypts and decrypts with the owner's keys.
package pgseal

import (
	"context"
	"net"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Options of a client. What is empty comes from the variables of the environment that `pgseal client` has.
type Options struct {
	Server   string // the server's connection string, as libpq takes it; a URL too
	Identity string // the path of the identity file
	Accept   string // the evaluator that gets the keys: software:KEY
	Policy   string // the path of a policy, in place of an evaluator
	Rules    string // the hash of the rules that the evaluator must follow
	// The server says which columns are encrypted where the identity has no list of them.
	TrustServerTypes bool
	// The server is behind a pool that gives each connection one of the server's up to its end.
	SessionPool bool
}

// Error is why there is no client, in one sentence.
type Error string

func (sentence Error) Error() string {
	return string(sentence)
}

// Client is a thread of this process between drivers and one server. Stop it before the process ends: Go runs nothing at its exit.
type Client struct {
	library    *started
	parameters map[string]string
}

// Of the library's connection string, what pgx knows.
var keywords = []string{"host", "port", "sslmode", "user", "password", "dbname", "options"}

// Start starts a client. An error is an Error.
func Start(options Options) (*Client, error) {
	given := map[string]string{"server": options.Server, "identity": options.Identity, "accept": options.Accept,
		"policy": options.Policy, "rules": options.Rules}
	if options.TrustServerTypes {
		given["trust_server_types"] = "true"
	}
	if options.SessionPool {
		given["session_pool"] = "true"
	}
	library, err := start(given)
	if err != nil {
		return nil, err
	}
	client := &Client{library: library, parameters: map[string]string{}}
	for _, keyword := range keywords {
		if value, found := library.parameter(keyword); found {
			client.parameters[keyword] = value
		}
	}
	return client, nil
}

// Stop ends all connections that go through this client.
func (client *Client) Stop() {
	client.library.stop()
}

// ConnString is a connection string of pgx, for its pools and for database/sql.
func (client *Client) ConnString() string {
	var parts []string
	for _, keyword := range keywords {
		if value, found := client.parameters[keyword]; found {
			parts = append(parts, keyword+"='"+strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(value)+"'")
		}
	}
	return strings.Join(parts, " ")
}

// DialFunc connects to the client, whatever host a configuration names.
func (client *Client) DialFunc() pgconn.DialFunc {
	socket := client.parameters["host"] + "/.s.PGSQL." + client.parameters["port"]
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}
}

// ConnConfig is a configuration of pgx. Further settings, such as "application_name=shop", may be empty; those of host and TLS have no
// effect.
func (client *Client) ConnConfig(settings string) (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig(client.ConnString() + " " + settings)
	if err != nil {
		return nil, err
	}
	config.Host, config.TLSConfig, config.Fallbacks = client.parameters["host"], nil, nil
	config.DialFunc = client.DialFunc()
	return config, nil
}
