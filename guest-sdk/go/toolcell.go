// Package toolcell writes tools for toolcell's sandbox. A tool is a function of a [Call] and a struct. The struct's fields
// become the schema of the arguments: the name is that of the json tag, the tag description describes it, and a field
// with omitempty or of a pointer type is optional. The fields of an embedded struct count as fields of the struct.
//
// The tags enum:"a,b", minimum, maximum and pattern limit a field, or each value in its list or map. The tag default has the
// value of a field that may be left out, and nullable:"true" is for a pointer that may be null, but not left out.
package toolcell

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
)

// Call is what a tool knows of its call.
type Call struct {
	InvocationID string
	Tool         string
	// Attempt is 1 for the first one.
	Attempt uint32
	// Context has the folders cwd and scratch, if the call has them.
	Context map[string]any
}

// Class is the class of an Error.
type Class uint8

const (
	InvalidArguments Class = iota
	CapabilityGap
	SetupRequired
	CredentialMissing
	Timeout
	RateLimited
	DependencyUnavailable
	ExecutionFailed
	PartialFailure
	ResultTooLarge
	Canceled
	// Other is a class that the host alone gives, such as permission_denied: Error.Word names it.
	Other
)

// Error is a failure with a class. Every other error of a tool is an ExecutionFailed with the code "error".
type Error struct {
	Class Class
	// Code is stable and snake_case.
	Code string
	// Message is for the model and the user.
	Message string
	// Detail is for the record; no model sees it.
	Detail string
	// RetryAfterMs is the time after which the same call may succeed; 0: none.
	RetryAfterMs uint64
	// Word is the name of the class Other.
	Word string
}

func (e *Error) Error() string { return e.Message }

// Errorf makes an Error.
func Errorf(class Class, code, format string, arguments ...any) *Error {
	return &Error{Class: class, Code: code, Message: fmt.Sprintf(format, arguments...)}
}

// Content is an answer of content blocks, such as {"type": "text", "text": ".."}.
type Content struct {
	Blocks     []any
	Structured any
	// Summary is a line for people.
	Summary string
	// Missing says what is missing of an answer that is usable; nil: nothing.
	Missing *Error
}

// Option declares more of a tool.
type Option func(fields map[string]any)

// With sets a field of `toolcell schema show toolkit-short`, such as With("access", []string{"file_read"}).
func With(name string, value any) Option {
	return func(fields map[string]any) { fields[name] = value }
}

// Definition is a tool of a Toolkit.
type Definition struct {
	fields map[string]any
	name   string
	run    func(call *Call, input []byte) outcome
}

// Tool declares a tool. What it returns is text if Out is string, blocks if it is Content, and otherwise a structured value,
// whose schema is made of the type.
func Tool[In, Out any](name, description string, function func(*Call, In) (Out, error), options ...Option) Definition {
	defer func() {
		if cause := recover(); cause != nil {
			refuse(fmt.Sprintf("the tool %s: %v", name, cause))
		}
	}()
	fields := map[string]any{"name": name, "description": description, "input": inputSchema(reflect.TypeFor[In]())}
	out := reflect.TypeFor[Out]()
	switch {
	case out.Kind() == reflect.String:
		fields["content_types"] = []string{"text"}
	case out != reflect.TypeFor[Content]():
		schema := outputSchema(out)
		if out.Kind() == reflect.Pointer {
			schema = orNull(schema)
		}
		// Of any there is nothing to say.
		if len(schema) > 0 {
			fields["output"] = schema
		}
	}
	for _, option := range options {
		option(fields)
	}
	run := func(call *Call, input []byte) outcome {
		in, err := arguments[In](input)
		if err != nil {
			return failed(err)
		}
		out, err := function(call, in)
		if err != nil && !isNothing(err) {
			return failed(err)
		}
		fill(reflect.ValueOf(&out).Elem())
		return answered(out)
	}
	return Definition{fields, name, run}
}

var (
	namespace string
	known     []Definition
)

// Toolkit declares the tools of the component. Call it once, in init.
func Toolkit(name string, tools ...Definition) {
	namespace, known = name, tools
}

type outcomeKind uint8

const (
	isSuccess outcomeKind = iota
	isText
	isJSON
	isPartial
	isFailure
)

type outcome struct {
	kind                outcomeKind
	text                string
	structured, summary *string
	err                 Error
}

func describe() string {
	tools := make([]map[string]any, 0, len(known))
	for _, tool := range known {
		tools = append(tools, tool.fields)
	}
	text, err := json.Marshal(map[string]any{"namespace": namespace, "tools": tools})
	if err != nil {
		panic(err)
	}
	return string(text)
}

func run(call *Call, input []byte) (made outcome) {
	defer func() {
		if cause := recover(); cause != nil {
			if _, stops := cause.(asked); stops {
				panic(cause)
			}
			err := Errorf(ExecutionFailed, "panic", "the tool panicked: %v", cause)
			err.Detail = string(debug.Stack())
			made = failed(err)
		}
	}()
	for _, tool := range known {
		if tool.name == call.Tool {
			return tool.run(call, input)
		}
	}
	return failed(Errorf(InvalidArguments, "no_such_tool", "there is no tool %s", call.Tool))
}

// isNothing says whether an error is a nil *Error, which a function with a result of that type returns for success.
func isNothing(err error) bool {
	known, is := err.(*Error)
	return is && known == nil
}

// failed keeps the class of an Error that another error wraps, and the whole text.
func failed(err error) outcome {
	var known *Error
	if !errors.As(err, &known) || known == nil {
		known = &Error{Class: ExecutionFailed, Code: "error"}
	}
	made := *known
	made.Message = err.Error()
	return outcome{kind: isFailure, err: made}
}

func answered(value any) outcome {
	switch value := value.(type) {
	case string:
		return outcome{kind: isText, text: value}
	case Content:
		return blocks(value)
	}
	text, err := json.Marshal(value)
	if err != nil {
		return failed(err)
	}
	return outcome{kind: isJSON, text: string(text)}
}

func blocks(content Content) outcome {
	if content.Blocks == nil {
		content.Blocks = []any{}
	}
	text, err := json.Marshal(content.Blocks)
	if err != nil {
		return failed(err)
	}
	made := outcome{kind: isSuccess, text: string(text)}
	if content.Structured != nil {
		structured, err := json.Marshal(content.Structured)
		if err != nil {
			return failed(err)
		}
		words := string(structured)
		made.structured = &words
	}
	if content.Summary != "" {
		made.summary = &content.Summary
	}
	if content.Missing != nil {
		made.kind, made.err = isPartial, *content.Missing
	}
	return made
}
