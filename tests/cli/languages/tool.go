package main

import (
	"fmt"
	"strings"

	"toolcell"
)

// Input is what all takes.
type Input struct {
	Text  string   `json:"text" description:"A text."`
	Limit *int     `json:"limit"`
	More  []string `json:"more,omitempty"`
}

// Counts is what all returns.
type Counts struct {
	Limit int `json:"limit"`
	More  int `json:"more"`
}

func all(call *toolcell.Call, input Input) (any, error) {
	toolcell.Progress("half", 50)
	toolcell.Log(toolcell.Info, fmt.Sprintf("read %d bytes", len(input.Text)), "")
	if _, stop := toolcell.CancelRequested(); stop {
		return nil, toolcell.Errorf(toolcell.Canceled, "stopped", "stopped")
	}
	switch input.Text {
	case "fail":
		return nil, fmt.Errorf("wrapped: %w", toolcell.Errorf(toolcell.RateLimited, "slow", "wait %d", call.Attempt))
	case "bytes":
		return "a\xe4o", nil
	case "panic":
		panic("on purpose")
	case "ask":
		if _, known := toolcell.Responses()["who"]; !known {
			form := map[string]any{"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}}}
			toolcell.Ask(nil, toolcell.Question{Key: "who", Message: "Who are you?", Schema: form})
		}
		return "answered", nil
	case "part":
		block := map[string]any{"type": "text", "text": "p"}
		missing := toolcell.Errorf(toolcell.PartialFailure, "half", "half of it")
		return toolcell.Content{Blocks: []any{block}, Missing: missing}, nil
	}
	if strings.HasPrefix(input.Text, "http:") {
		request := toolcell.Request{URL: input.Text, Headers: [][2]string{{"x-a", "b"}}}
		response, err := toolcell.Send(request)
		return fmt.Sprintf("%d %s", response.Status, response.Body), err
	}
	limit := -1
	if input.Limit != nil {
		limit = *input.Limit
	}
	return Counts{limit, len(input.More)}, nil
}

func init() {
	toolcell.Toolkit("host", toolcell.Tool("all", "Uses the host.", all, toolcell.With("access", []string{"network"}), toolcell.With("network_scope", "any")))
}

func main() {}
