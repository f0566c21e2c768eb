//go:build !wasip1

package toolcell

import (
	"encoding/json"
	"fmt"
	"time"
)

// refuse ends a program that cannot say what its tools are.
func refuse(why string) { panic(why) }

// TestHost is the host of native tests. The tests of a package share it, so they do not run in parallel.
type TestHost struct {
	// Answers are those of the user, by key.
	Answers map[string]Answer
	// Cancel is a request to stop; empty: none.
	Cancel AbortReason
	// Response is that of the server, whatever is requested; nil: it cannot be reached.
	Response *Response
	// Context has the folders cwd and scratch; ResumeState is what the last Ask remembered.
	Context     map[string]any
	ResumeState []byte
	// Tools answer calls of other tools, by name.
	Tools map[string]func(input []byte) (any, error)
	// Heard is what the tool said, a line each.
	Heard []string
}

// TestOutcome is what a tool returned.
type TestOutcome struct {
	// Text is the text, or the JSON of the value or of the content blocks.
	Text string
	// Structured is the JSON of a structured value beside content blocks; empty: none.
	Structured string
	// Err is a failure, or what is missing of a partial answer.
	Err *Error
	// Asked is the key of the first question; empty: none was asked.
	Asked string
}

var testHost = &TestHost{}

// Test calls a tool natively, with any value as its arguments. host may be nil.
func Test(host *TestHost, tool string, input any) (made TestOutcome) {
	testHost = host
	if testHost == nil {
		testHost = &TestHost{}
	}
	defer func() {
		if cause := recover(); cause != nil {
			question, stops := cause.(asked)
			if !stops {
				panic(cause)
			}
			made = TestOutcome{Asked: question.key}
		}
	}()
	text, err := json.Marshal(input)
	if err != nil {
		panic(err)
	}
	done := run(&Call{InvocationID: "test", Tool: tool, Attempt: 1, Context: testHost.Context}, text)
	made.Text = done.text
	if done.structured != nil {
		made.Structured = *done.structured
	}
	if done.kind == isFailure || done.kind == isPartial {
		made.Err = &done.err
	}
	return made
}

func hear(format string, arguments ...any) {
	testHost.Heard = append(testHost.Heard, fmt.Sprintf(format, arguments...))
}

// Report says how far the tool is.
func Report(update Update) {
	if update.Percent == nil {
		hear("progress %s", update.Message)
		return
	}
	hear("progress %g %s", *update.Percent, update.Message)
}

// PartialResult hands out blocks that are usable now, as a JSON array. Returns the host's reference.
func PartialResult(content string) string {
	hear("partial %s", content)
	return "test:partial"
}

// Log writes a line into the log of the call. fields: a JSON object, or the empty string.
func Log(level Level, message, fields string) {
	hear("log %s %s%s", []string{"trace", "debug", "info", "warn", "error"}[level], message, fields)
}

// CancelRequested says why the call was asked to stop; false if it was not.
func CancelRequested() (AbortReason, bool) { return testHost.Cancel, testHost.Cancel != "" }

// Acknowledge says that the tool has seen the request to stop, and is cleaning up.
func Acknowledge() { hear("acknowledged") }

// Wait ends at once if a stop is requested before or meanwhile. In a test, no time passes.
func Wait(duration time.Duration) (AbortReason, bool) {
	hear("wait %s", duration)
	return CancelRequested()
}

// CreateArtifact begins a file.
func CreateArtifact(name, mediaType string) (*Artifact, error) {
	hear("artifact %s %s", name, mediaType)
	return &Artifact{}, nil
}

func (a *Artifact) write(content []byte) error {
	hear("chunk %d", len(content))
	return nil
}

func (a *Artifact) finish() (string, error) { return "test:artifact", nil }

func modifyContext(key, value string) error {
	hear("context %s %s", key, value)
	return nil
}

// CallableTools returns the tools that this call may call.
func CallableTools() []Callable {
	var found []Callable
	for name := range testHost.Tools {
		found = append(found, Callable{Name: name})
	}
	return found
}

func callTool(name, input string) (ToolAnswer, error) {
	hear("call %s %s", name, input)
	tool := testHost.Tools[name]
	if tool == nil {
		return ToolAnswer{}, &Error{Class: Other, Word: "permission_denied", Code: "tool_not_callable", Message: "TestHost.Tools has no " + name}
	}
	value, err := tool([]byte(input))
	if err != nil {
		return ToolAnswer{}, err
	}
	text, err := json.Marshal(value)
	return ToolAnswer{InvocationID: "test", Content: json.RawMessage("[]"), Structured: text}, err
}

func responses() string {
	if testHost.Answers == nil {
		return "{}"
	}
	text, err := json.Marshal(testHost.Answers)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// ResumeState returns the state of the last Ask; empty in the first instance.
func ResumeState() []byte { return testHost.ResumeState }

// Ask asks the user. It does not return.
func Ask(_ []byte, questions ...Question) {
	key := ""
	for i, question := range questions {
		if i == 0 {
			key = question.Key
		}
		hear("question %s %s %s", question.Key, question.Message, question.schema())
	}
	panic(asked{key})
}

// Send sends a request, and reads the response. It follows no redirect.
func Send(request Request) (Response, error) {
	hear("request %s %s", request.Method, request.URL)
	if testHost.Response == nil {
		return Response{}, Errorf(DependencyUnavailable, "unreachable", "the server cannot be reached")
	}
	if len(testHost.Response.Body) > request.limit() {
		return *testHost.Response, tooLarge(request.limit())
	}
	return *testHost.Response, nil
}
