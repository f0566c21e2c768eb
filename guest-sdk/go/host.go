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

// Artifact is a file that belongs to the answer, written in chunks: an io.Writer.
type Artifact struct{ handle uint32 }

// chunk is the maximum size of one write of an artifact, in bytes.
const chunk = 1 << 20

// WriteArtifact keeps a whole file with the answer, and returns its block for Content.
func WriteArtifact(name, mediaType string, content []byte) (map[string]any, error) {
	artifact, err := CreateArtifact(name, mediaType)
	if err != nil {
		return nil, err
	}
	if _, err := artifact.Write(content); err != nil {
		return nil, err
	}
	return artifact.Finish()
}

// Write appends a chunk. What the host refuses removes the file.
func (a *Artifact) Write(content []byte) (int, error) {
	for at := 0; at < len(content); at += chunk {
		if err := a.write(content[at:min(at+chunk, len(content))]); err != nil {
			return at, err
		}
	}
	return len(content), nil
}

// Finish ends the file, and returns its block for Content.
func (a *Artifact) Finish() (map[string]any, error) {
	reference, err := a.finish()
	if err != nil {
		return nil, err
	}
	return map[string]any{"type": "artifact_ref", "reference": reference}, nil
}

// ModifyContext sets a fact in the context of the caller. It counts if the call succeeds.
func ModifyContext(key string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return modifyContext(key, string(text))
}

// Callable is a tool that this call may call.
type Callable struct{ Name, Description string }

// ToolAnswer is what another tool answered.
type ToolAnswer struct {
	InvocationID string
	// Content has the blocks, as a JSON array.
	Content json.RawMessage
	// Structured is the structured value; nil: none.
	Structured json.RawMessage
	// Missing says what is missing of an answer that is usable; nil: nothing.
	Missing *Error
}

// CallTool calls another tool by its qualified name, and waits for its end. The tool declares With("tool_calls", ..), and the
// operator grants it.
func CallTool(name string, input any) (ToolAnswer, error) {
	text, err := json.Marshal(input)
	if err != nil {
		return ToolAnswer{}, err
	}
	return callTool(name, string(text))
}

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
