package toolcell

import "encoding/json"

// Update is what a tool says of its progress. Nil and the empty string: nothing.
type Update struct {
	Message      string
	Percent      *float64
	CurrentStep  string
	TotalSteps   *uint32
	BytesRead    *uint64
	BytesWritten *uint64
	LineCount    *uint64
}

// Progress reports a message and a percentage.
func Progress(message string, percent float64) { Report(Update{Message: message, Percent: &percent}) }

// Level is a level of Log.
type Level uint8

const (
	Trace Level = iota
	Debug
	Info
	Warn
	ErrorLevel
)

// AbortReason says why a call was asked to stop.
type AbortReason string

var reasons = []AbortReason{"user_interruption", "sibling_error", "timeout", "fallback", "runtime_shutdown"}

// Question is asked of the caller's user.
type Question struct {
	// Key has 1 to 64 letters, digits, "_", "-" or ".".
	Key     string
	Message string
	// Schema is the JSON Schema of a form, as MCP elicitation has it.
	Schema any
}

// Answer is one of the user.
type Answer struct {
	// Action is accept, decline or cancel.
	Action  string          `json:"action"`
	Content json.RawMessage `json:"content"`
}

// asked ends a tool in a test, as the host ends an instance.
type asked struct{ key string }

func (q Question) schema() string {
	text, err := json.Marshal(q.Schema)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// Responses returns the answers so far, by key.
func Responses() map[string]Answer {
	found := map[string]Answer{}
	if err := json.Unmarshal([]byte(responses()), &found); err != nil {
		panic(err)
	}
	return found
}
