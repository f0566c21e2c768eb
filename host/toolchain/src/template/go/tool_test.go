package main

import (
	"testing"

	"toolcell"
)

func TestWordsAreCounted(t *testing.T) {
	outcome := toolcell.Test(nil, "count", Text{Text: "one two three"})
	if outcome.Text != "3 words" {
		t.Fatalf("%+v", outcome)
	}
}
