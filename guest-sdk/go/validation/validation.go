// Package validation checks the arguments of calls before they are decided on, without files and network. A component that
// imports it exports the checks.
package validation

import (
	"encoding/json"

	"toolcell"
)

var checks = map[string]func(input []byte) error{}

// Check makes function check the arguments of a tool: its error refuses the call.
func Check[In any](function func(In) error) toolcell.Option {
	return func(fields map[string]any) {
		checks[fields["name"].(string)] = func(input []byte) error {
			in, err := toolcell.Arguments[In](input)
			if err != nil {
				return err
			}
			return function(in)
		}
	}
}

func check(tool string, input []byte) error {
	if function := checks[tool]; function != nil {
		return function(input)
	}
	return nil
}

// Test runs the check of a tool natively.
func Test(tool string, input any) error {
	text, err := json.Marshal(input)
	if err != nil {
		return err
	}
	return check(tool, text)
}
