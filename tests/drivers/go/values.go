package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

const longest = 4096

// The value that an application has. database/sql has no types for what is not Go's own: drivers take them by their interfaces.
func native(kind string, value any) any {
	if value == nil {
		return nil
	}
	if list, ok := value.([]any); ok {
		return array(strings.TrimSuffix(kind, "[]"), list)
	}
	text := unrepeated(value)
	switch kind {
	case "int4", "int8":
		number, err := strconv.ParseInt(text, 10, 64)
		check(err)
		return number
	case "numeric":
		number := pgtype.Numeric{}
		check(number.Scan(text))
		return number
	case "float4", "float8":
		number, err := strconv.ParseFloat(text, 64)
		check(err)
		return number
	case "bool":
		return text == "true"
	case "bytea":
		bytes, err := hex.DecodeString(text)
		check(err)
		return bytes
	case "date", "timestamp", "timestamptz":
		return moment(text)
	default:
		return text
	}
}

func natives(kinds []string, values []any) []any {
	made := make([]any, len(values))
	for at, value := range values {
		made[at] = native(kinds[at], value)
	}
	return made
}

func array(kind string, list []any) any {
	if kind == "text" {
		texts := make([]*string, len(list))
		for at, item := range list {
			if text, ok := item.(string); ok {
				texts[at] = &text
			}
		}
		return texts
	}
	numbers := make([]*int32, len(list))
	for at, item := range list {
		if text, ok := item.(string); ok {
			number, err := strconv.ParseInt(text, 10, 32)
			check(err)
			small := int32(number)
			numbers[at] = &small
		}
	}
	return numbers
}

func unrepeated(value any) string {
	if repeated, ok := value.(map[string]any); ok {
		return strings.Repeat(repeated["repeat"].(string), int(repeated["times"].(float64)))
	}
	return value.(string)
}

func moment(text string) time.Time {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999", "2006-01-02"} {
		if found, err := time.Parse(layout, text); err == nil {
			return found
		}
	}
	panic(text)
}

func shownAll(row []any, kinds []string) []any {
	all := make([]any, len(row))
	for at, value := range row {
		all[at] = shown(value, kinds[at])
	}
	return all
}

// The name of a value's type, and its text.
func shown(value any, kind string) any {
	switch value := value.(type) {
	case nil:
		return nil
	case []any:
		return []any{"list", shownAll(value, repeated(strings.TrimSuffix(kind, "[]"), len(value)))}
	case time.Time:
		return []any{"time.Time", ofMoment(value, kind)}
	case [16]byte:
		return []any{"[16]byte", pgtype.UUID{Bytes: value, Valid: true}.String()}
	case []byte:
		return []any{"[]byte", short(hex.EncodeToString(value))}
	case pgtype.Numeric:
		return []any{"pgtype.Numeric", digits(value)}
	case float32:
		return []any{"float32", strconv.FormatFloat(float64(value), 'g', -1, 32)}
	case float64:
		return []any{"float64", strconv.FormatFloat(value, 'g', -1, 64)}
	default:
		return []any{fmt.Sprintf("%T", value), short(fmt.Sprint(value))}
	}
}

func repeated(kind string, times int) []string {
	kinds := make([]string, times)
	for at := range kinds {
		kinds[at] = kind
	}
	return kinds
}

func ofMoment(value time.Time, kind string) string {
	switch kind {
	case "date":
		return value.Format("2006-01-02")
	case "timestamp":
		return value.Format("2006-01-02T15:04:05.000000")
	default:
		return value.UTC().Format("2006-01-02T15:04:05.000000-07:00")
	}
}

func digits(number pgtype.Numeric) string {
	text := number.Int.String()
	if number.Exp >= 0 {
		return text + strings.Repeat("0", int(number.Exp))
	}
	sign, decimals := "", int(-number.Exp)
	if number.Int.Sign() < 0 {
		sign, text = "-", text[1:]
	}
	if len(text) <= decimals {
		text = strings.Repeat("0", decimals-len(text)+1) + text
	}
	return sign + text[:len(text)-decimals] + "." + text[len(text)-decimals:]
}

func short(text string) string {
	if len(text) <= longest {
		return text
	}
	digest := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(digest[:])
}
