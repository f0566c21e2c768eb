// Package classification says what a call would do with its arguments. A component that imports it exports that.
package classification

import (
	"encoding/json"

	"toolcell"
)

// Claim is a claim about one call. It may only narrow what the declaration says.
type Claim uint8

const (
	Unstated Claim = iota
	No
	Yes
)

// Facts are the claims about one call.
type Facts struct {
	ReadOnly, ConcurrencySafe, Destructive, OpenWorld Claim
}

var claims = map[string]func(input []byte) Facts{}

// By makes function classify the calls of a tool.
func By[In any](function func(In) Facts) toolcell.Option {
	return func(fields map[string]any) {
		claims[fields["name"].(string)] = func(input []byte) Facts {
			in, err := toolcell.Arguments[In](input)
			if err != nil {
				return Facts{}
			}
			return function(in)
		}
	}
}

func classify(tool string, input []byte) Facts {
	if function := claims[tool]; function != nil {
		return function(input)
	}
	return Facts{}
}

// Test classifies a call natively.
func Test(tool string, input any) Facts {
	text, err := json.Marshal(input)
	if err != nil {
		panic(err)
	}
	return classify(tool, text)
}
