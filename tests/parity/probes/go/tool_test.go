package main

import (
	"slices"
	"testing"

	"toolcell"
	"toolcell/classification"
	"toolcell/validation"
)

func TestDefaultsAndLimits(t *testing.T) {
	made := toolcell.Test(nil, "order", map[string]any{"name": "a", "tags": []string{}, "parts": []any{}, "place": map[string]any{"street": "s"},
		"labels": map[string]any{}, "extra": nil, "note": nil})
	want := `{"name":"a","size":"small","count":1,"ratio":0.5,"urgent":false,"tags":[],"parts":[],"place":{"street":"s","floor":0},"labels":{},"extra":null,"note":null}`
	if made.Text != want {
		t.Fatal(made)
	}
}

func TestAStop(t *testing.T) {
	host := &toolcell.TestHost{Cancel: "timeout"}
	if made := toolcell.Test(host, "wait", nil); made.Text != `{"stopped":"timeout"}` || !slices.Contains(host.Heard, "acknowledged") {
		t.Fatal(made, host.Heard)
	}
}

func TestAnswers(t *testing.T) {
	if made := toolcell.Test(nil, "ask", nil); made.Asked != "who" {
		t.Fatal(made)
	}
	accept := func(content string) toolcell.Answer {
		return toolcell.Answer{Action: "accept", Content: []byte(content)}
	}
	host := &toolcell.TestHost{ResumeState: []byte("s"), Answers: map[string]toolcell.Answer{
		"who": accept(`{"name":"Ada"}`), "sure": accept(`{"yes":true}`), "last": accept(`{"n":3}`)}}
	if made := toolcell.Test(host, "ask", nil); made.Text != "Ada true 3 s" {
		t.Fatal(made)
	}
}

func TestContextAndTools(t *testing.T) {
	folder := t.TempDir()
	host := &toolcell.TestHost{Context: map[string]any{"scratch": folder, "cwd": "/c"}}
	if made := toolcell.Test(host, "look", File{Path: "go.mod"}); made.Err != nil {
		t.Fatal(made.Err)
	}
	host = &toolcell.TestHost{Tools: map[string]func([]byte) (any, error){"other.one": func([]byte) (any, error) { return 7, nil }}}
	if made := toolcell.Test(host, "relay", Other{Tool: "other.one"}); made.Text != `{"answer":7,"callable":true}` {
		t.Fatal(made)
	}
}

func TestMore(t *testing.T) {
	if validation.Test("even", Number{N: 3}) == nil || validation.Test("even", Number{N: 4}) != nil {
		t.Fatal("the check of even")
	}
	if classification.Test("touch", Change{Change: true}).ReadOnly != classification.No {
		t.Fatal("the facts of touch")
	}
	settings.Set(Settings{Unit: "mile"})
	if made := toolcell.Test(nil, "setting", nil); made.Text != "mile" {
		t.Fatal(made)
	}
}
