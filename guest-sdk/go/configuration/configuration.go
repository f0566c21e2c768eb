// Package configuration takes the settings of the operator: config of a [[tool]] in toolcell.toml. They are no place for
// secrets. A component that imports it takes settings.
package configuration

import (
	"bytes"
	"encoding/json"

	"toolcell"
)

// Settings are those of one component.
type Settings[T any] struct{ value T }

var take = func([]byte) error {
	return toolcell.Errorf(toolcell.SetupRequired, "no_settings", "the tool takes no settings")
}

// New makes a struct the type of the settings, with their values where the operator gave none. Call it once, for a variable
// of the package.
func New[T any](otherwise T) *Settings[T] {
	made := &Settings[T]{otherwise}
	take = func(text []byte) error {
		reader := json.NewDecoder(bytes.NewReader(text))
		reader.DisallowUnknownFields()
		made.value = otherwise
		if err := reader.Decode(&made.value); err != nil {
			return toolcell.Errorf(toolcell.SetupRequired, "settings", "the settings cannot be used: %v", err)
		}
		return nil
	}
	return made
}

// Get returns the settings.
func (s *Settings[T]) Get() T { return s.value }

// Set changes the settings, in a test.
func (s *Settings[T]) Set(value T) { s.value = value }
