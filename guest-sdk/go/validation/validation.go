// Package validation checks the arguments of calls before they are decided on, without files and network. A component that
// imports it exports the checks.
package validation

import (
	"encoding/json"

	"toolcell"
)

var checks, preflights = map[string]func(input []byte) error{}, map[string]func(input []byte) error{}

// Check makes function check the arguments of a tool: its error refuses the call.
func Check[In any](function func(In) error) toolcell.Option { return by(checks, function) }

// Preflight makes function say whether a call of a tool could start: its error says what is missing.
func Preflight[In any](function func(In) error) toolcell.Option { return by(preflights, function) }

func by[In any](functions map[string]func(input []byte) error, function func(In) error) toolcell.Option {
	return func(fields map[string]any) {
		functions[fields["name"].(string)] = func(input []byte) error {
			in, err := toolcell.Arguments[In](input)
			if err != nil {
				return err
			}
			return function(in)
		}
	}
}

func run(functions map[string]func(input []byte) error, tool string, input []byte) error {
	if function := functions[tool]; function != nil {
		return function(input)
	}
	return nil
}

// Test runs the check and the preflight of a tool natively.
func Test(tool string, input any) error {
	text, err := json.Marshal(input)
	if err != nil {
		return err
	}
	if err := run(checks, tool, text); err != nil {
		return err
	}
	return run(preflights, tool, text)
}
