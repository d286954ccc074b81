package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"github.com/sapo-swarm/swarm/configs"
)

// addOutputFlag adds -o, which every command with a result has.
func addOutputFlag(f *pflag.FlagSet, value *string) {
	f.StringVarP(value, "output", "o", "text", "text, or json: one document on stdout")
}

// addLinesFlag is addOutputFlag for a command that prints one document per line.
func addLinesFlag(f *pflag.FlagSet, value *string, what string) {
	f.StringVarP(value, "output", "o", "text", "text, or json: "+what+" a line")
}

func checkOutput(value string) error {
	if value != "text" && value != "json" {
		return &configs.Error{Key: "output", Value: value, Allowed: "text or json"}
	}
	return nil
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	return nil
}
