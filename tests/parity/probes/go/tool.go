package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"toolcell"
	"toolcell/classification"
	"toolcell/configuration"
	"toolcell/validation"
)

type Part struct {
	Label  string  `json:"label"`
	Weight float64 `json:"weight" minimum:"0"`
}

type Place struct {
	Street string `json:"street"`
	Floor  int64  `json:"floor" default:"0"`
}

type Order struct {
	Name   string           `json:"name" pattern:"^[a-z]+$" description:"Who orders."`
	Size   string           `json:"size" enum:"small,large" default:"small"`
	Count  int64            `json:"count" minimum:"1" maximum:"10" default:"1"`
	Ratio  float64          `json:"ratio" minimum:"0" maximum:"1" default:"0.5"`
	Urgent bool             `json:"urgent" default:"false"`
	Tags   []string         `json:"tags"`
	Parts  []Part           `json:"parts"`
	Place  Place            `json:"place"`
	Labels map[string]int64 `json:"labels"`
	Extra  any              `json:"extra"`
	Note   *string          `json:"note" nullable:"true"`
	Hint   *string          `json:"hint,omitempty"`
}

func order(_ *toolcell.Call, input Order) (Order, error) { return input, nil }

type Text struct {
	Text string `json:"text"`
}

type Nothing struct{}

func say(_ *toolcell.Call, input Text) (any, error) {
	return map[string]any{"text": input.Text, "list": []any{1, 2.5, true, nil}, "inner": map[string]any{"a\"b": "c\\d"}}, nil
}

type Half struct {
	Half bool `json:"half" default:"false"`
}

func blocks(_ *toolcell.Call, input Half) (toolcell.Content, error) {
	made := toolcell.Content{Blocks: []any{map[string]any{"type": "text", "text": "block"}}, Structured: map[string]any{"a": 1}, Summary: "one line"}
	if input.Half {
		made.Missing = toolcell.Errorf(toolcell.PartialFailure, "rest_missing", "the rest is missing")
	}
	return made, nil
}

func fail(*toolcell.Call, Nothing) (string, error) {
	return "", &toolcell.Error{Class: toolcell.RateLimited, Code: "slow_down", Message: "slow down", Detail: "why", RetryAfterMs: 60000}
}

type File struct {
	Path string `json:"path"`
}

func look(call *toolcell.Call, input File) (any, error) {
	text, err := os.ReadFile(input.Path)
	if err != nil {
		return nil, err
	}
	scratch, _ := call.Context["scratch"].(string)
	if err := os.WriteFile(scratch+"/draft", text, 0o600); err != nil {
		return nil, err
	}
	draft, err := os.ReadFile(scratch + "/draft")
	return map[string]any{"text": string(text), "draft": string(draft), "cwd": call.Context["cwd"], "attempt": call.Attempt}, err
}

func variable(*toolcell.Call, Nothing) (string, error) { return os.Getenv("PARITY"), nil }

func report(*toolcell.Call, Nothing) (string, error) {
	percent, steps, read, written, lines := 100.0, uint32(2), uint64(3), uint64(4), uint64(5)
	toolcell.Progress("half", 50)
	toolcell.Report(toolcell.Update{Message: "all", Percent: &percent, CurrentStep: "last", TotalSteps: &steps, BytesRead: &read,
		BytesWritten: &written, LineCount: &lines})
	toolcell.PartialResult(`[{"type":"text","text":"early"}]`)
	toolcell.Log(toolcell.Warn, "odd", `{"n":1}`)
	return "reported", nil
}

func wait(*toolcell.Call, Nothing) (any, error) {
	reason, stopped := toolcell.Wait(time.Minute)
	if stopped {
		toolcell.Acknowledge()
	}
	return map[string]any{"stopped": reason}, nil
}

func form(name, kind string) any {
	return map[string]any{"type": "object", "properties": map[string]any{name: map[string]any{"type": kind}}, "required": []string{name}}
}

func ask(*toolcell.Call, Nothing) (string, error) {
	answers := toolcell.Responses()
	if _, ok := answers["who"]; !ok {
		toolcell.Ask([]byte("one"), toolcell.Question{Key: "who", Message: "Who?", Schema: form("name", "string")},
			toolcell.Question{Key: "sure", Message: "Sure?", Schema: form("yes", "boolean")})
	}
	if _, ok := answers["last"]; !ok {
		toolcell.Ask(append(toolcell.ResumeState(), " two"...), toolcell.Question{Key: "last", Message: "How many?", Schema: form("n", "integer")})
	}
	var who struct{ Name string }
	var sure struct{ Yes bool }
	var last struct{ N int }
	for key, to := range map[string]any{"who": &who, "sure": &sure, "last": &last} {
		if err := json.Unmarshal(answers[key].Content, to); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%s %t %d %s", who.Name, sure.Yes, last.N, toolcell.ResumeState()), nil
}

func keep(*toolcell.Call, Nothing) (toolcell.Content, error) {
	artifact, err := toolcell.CreateArtifact("rows.csv", "text/csv")
	if err != nil {
		return toolcell.Content{}, err
	}
	for _, chunk := range []string{"a,b\n", strings.Repeat("x", 1_500_000), "\nend\n"} {
		if _, err := artifact.Write([]byte(chunk)); err != nil {
			return toolcell.Content{}, err
		}
	}
	block, err := artifact.Finish()
	return toolcell.Content{Blocks: []any{block}}, err
}

func mark(*toolcell.Call, Nothing) (string, error) {
	return "marked", toolcell.ModifyContext("branch", map[string]string{"name": "fix"})
}

type Target struct {
	URL string `json:"url"`
}

func fetch(_ *toolcell.Call, input Target) (any, error) {
	response, err := toolcell.Send(toolcell.Request{Method: "POST", URL: input.URL, Headers: [][2]string{{"x-probe", "yes"}}, Body: []byte("ping")})
	return map[string]any{"status": response.Status, "body": string(response.Body)}, err
}

type Other struct {
	Tool  string `json:"tool"`
	Input any    `json:"input"`
}

func relay(_ *toolcell.Call, input Other) (any, error) {
	answer, err := toolcell.CallTool(input.Tool, input.Input)
	return map[string]any{"answer": answer.Structured, "callable": len(toolcell.CallableTools()) > 0}, err
}

type Settings struct {
	Unit string `json:"unit"`
}

var settings = configuration.New(Settings{Unit: "none"})

func setting(*toolcell.Call, Nothing) (string, error) { return settings.Get().Unit, nil }

type Number struct {
	N int64 `json:"n"`
}

func even(_ *toolcell.Call, input Number) (string, error) { return fmt.Sprint(input.N), nil }

func isEven(input Number) error {
	if input.N%2 != 0 {
		return toolcell.Errorf(toolcell.InvalidArguments, "odd", "%d is odd", input.N)
	}
	return nil
}

func preflight(input Number) error {
	if input.N == 0 {
		return toolcell.Errorf(toolcell.SetupRequired, "not_ready", "not for 0")
	}
	return nil
}

type Change struct {
	Change bool `json:"change"`
}

func touch(*toolcell.Call, Change) (string, error) { return "touched", nil }

func facts(input Change) classification.Facts {
	if input.Change {
		return classification.Facts{ReadOnly: classification.No}
	}
	return classification.Facts{ReadOnly: classification.Yes}
}

func init() {
	writes := toolcell.With("access", []string{"file_read", "file_write"})
	toolcell.Toolkit("parity",
		toolcell.Tool("order", "Answers an order.", order),
		toolcell.Tool("say", "Answers JSON.", say),
		toolcell.Tool("blocks", "Answers blocks.", blocks),
		toolcell.Tool("fail", "Fails.", fail),
		toolcell.Tool("look", "Reads a file.", look, writes, toolcell.With("write_effects", []string{"local_draft"}),
			toolcell.With("paths", []string{"path"})),
		toolcell.Tool("variable", "Reads a variable.", variable, toolcell.With("environment", []string{"PARITY"})),
		toolcell.Tool("report", "Reports.", report),
		toolcell.Tool("wait", "Waits for a stop.", wait),
		toolcell.Tool("ask", "Asks.", ask),
		toolcell.Tool("keep", "Keeps a file.", keep),
		toolcell.Tool("mark", "Changes the context.", mark),
		toolcell.Tool("fetch", "Sends a request.", fetch, toolcell.With("access", []string{"network"}),
			toolcell.With("urls", []string{"url"}), toolcell.With("write_effects", []string{"remote_mutation"})),
		toolcell.Tool("relay", "Calls a tool.", relay, toolcell.With("tool_calls", []string{"*"})),
		toolcell.Tool("setting", "Says its setting.", setting),
		toolcell.Tool("even", "Takes even numbers.", even, validation.Check(isEven), validation.Preflight(preflight)),
		toolcell.Tool("touch", "Says whether it changes things.", touch, writes, classification.By(facts)))
}

func main() {}
