package main

import (
	"fmt"
	"strings"

	"toolcell"
)

// Text is what count takes.
type Text struct {
	Text string `json:"text" description:"The text to count in."`
}

func count(_ *toolcell.Call, input Text) (string, error) {
	return fmt.Sprintf("%d words", len(strings.Fields(input.Text))), nil
}

func init() {
	toolcell.Toolkit("{{name}}", toolcell.Tool("count", "Counts the words of a text.", count))
}

func main() {}
