package main

import (
	"encoding/json"
	"time"

	"example.com/lib"
	"toolcell"
)

// Input has what encoding/json reads in its own way.
type Input struct {
	Raw []byte    `json:"raw"`
	At  time.Time `json:"at"`
	Big int64     `json:"big"`
	common
}

type common struct {
	Tag string `json:"tag" description:"A tag."`
}

// Shapes has lists and maps that nothing fills.
type Shapes struct {
	common
	Raw   []byte              `json:"raw"`
	None  []byte              `json:"none"`
	At    time.Time           `json:"at"`
	Big   int64               `json:"big"`
	Words []string            `json:"words"`
	Deep  map[string][]string `json:"deep"`
	Note  *string             `json:"note"`
	Any   json.RawMessage     `json:"any,omitempty"`
}

func shapes(_ *toolcell.Call, input Input) (Shapes, error) {
	deep := map[string][]string{"a": nil}
	return Shapes{common: input.common, Raw: input.Raw, At: input.At, Big: input.Big, Deep: deep}, nil
}

// Numbers are integers of two sizes, and a text that looks like one.
type Numbers struct {
	N     int64  `json:"n"`
	Small uint8  `json:"small,omitempty"`
	Text  string `json:"text,omitempty"`
}

// Ring contains itself.
type Ring struct {
	Next  *Ring
	Words []string
}

func numbers(_ *toolcell.Call, input Numbers) (any, error) {
	ring := &Ring{}
	ring.Next = ring
	switch input.Text {
	case "list":
		return []string(nil), nil
	case "ring":
		return ring, nil
	}
	var none *toolcell.Error
	return map[string]any{"n": input.N, "small": input.Small, "text": input.Text, "list": []string(nil)}, none
}

func words(*toolcell.Call, struct{}) ([]string, error) { return nil, nil }
func table(*toolcell.Call, struct{}) (map[string]uint8, error) { return map[string]uint8{"a": lib.One}, nil }
func maybe(*toolcell.Call, struct{}) (*common, error) { return nil, nil }
func raw(*toolcell.Call, struct{}) (json.RawMessage, error) { return json.RawMessage("[1]"), nil }

func init() {
	toolcell.Toolkit("shapes",
		toolcell.Tool("shapes", "Answers in many types.", shapes),
		toolcell.Tool("numbers", "Takes integers.", numbers),
		toolcell.Tool("words", "Answers with a list.", words),
		toolcell.Tool("table", "Answers with a map.", table),
		toolcell.Tool("maybe", "Answers with nothing.", maybe),
		toolcell.Tool("raw", "Answers with any JSON.", raw))
}

func main() {}
