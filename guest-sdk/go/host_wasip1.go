//go:build wasip1

package toolcell

// The contract's canonical ABI, by hand. Pointers have 64 bits in Go, and 32 in the ABI, so records are written as bytes.

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"time"
	"unsafe"
)

// The adapter of WASI asks for its state and its stack in the first call of WASI, which Go's runtime makes before it has a
// heap. Those blocks come from here.
var (
	early     [3 << 16]byte
	earlyUsed uintptr
	ready     bool
	// Keeps what the host reads. An instance lives for one call, so nothing is freed.
	kept []any
)

func init() { ready = true }

//go:wasmexport cabi_realloc
//go:nosplit
func cabiRealloc(old unsafe.Pointer, oldSize, align, size uint32) unsafe.Pointer {
	if !ready {
		base := uintptr(unsafe.Pointer(&early))
		at := (base + earlyUsed + uintptr(align) - 1) &^ (uintptr(align) - 1)
		if at+uintptr(size) > base+uintptr(len(early)) {
			*(*byte)(nil) = 0
		}
		earlyUsed = at + uintptr(size) - base
		return unsafe.Pointer(at)
	}
	if size == 0 {
		return unsafe.Pointer(uintptr(align))
	}
	made := persistentalloc(uintptr(size), uintptr(align), &hostBytes)
	if made == nil {
		*(*byte)(nil) = 0
	}
	if oldSize > 0 {
		copy(unsafe.Slice((*byte)(made), size), unsafe.Slice((*byte)(old), min(oldSize, size)))
	}
	return made
}

// While the host writes into an instance, the instance may call nothing of the host. An allocation on Go's heap could start a
// collection, which asks for the time; so what the host writes lies beside the heap, in memory that is never freed.
//
//go:linkname persistentalloc runtime.persistentalloc
func persistentalloc(size, align uintptr, stat *uint64) unsafe.Pointer

// The bytes that the host has written.
var hostBytes uint64

// area returns zeroed bytes that are aligned for every type of the ABI.
func area(size int) []byte {
	words := make([]uint64, size/8+1)
	kept = append(kept, words)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), size)
}

func address(bytes []byte) uint32 { return uint32(uintptr(unsafe.Pointer(unsafe.SliceData(bytes)))) }

// lower copies a text to where the host reads it. Bytes that are no UTF-8 would end the call as a crash.
func lower(text string) (at, length uint32) {
	return lowerBytes(strings.ToValidUTF8(text, "\uFFFD"))
}

func lowerBytes(content string) (at, length uint32) {
	bytes := area(len(content))
	copy(bytes, content)
	return address(bytes), uint32(len(content))
}

func lift(at, length uint32) string {
	if length == 0 {
		return ""
	}
	return string(unsafe.Slice((*byte)(unsafe.Pointer(uintptr(at))), length))
}

func putText(to []byte, text string) {
	at, length := lower(text)
	binary.LittleEndian.PutUint32(to, at)
	binary.LittleEndian.PutUint32(to[4:], length)
}

func putOptional(to []byte, text *string) {
	if text != nil {
		to[0] = 1
		putText(to[4:], *text)
	}
}

func textIn(from []byte) string {
	return lift(binary.LittleEndian.Uint32(from), binary.LittleEndian.Uint32(from[4:]))
}

// refuse ends a component that cannot say what it is, with the reason alone: a trace would hide it.
func refuse(why string) {
	fmt.Fprintln(os.Stderr, why)
	os.Exit(1)
}

//go:wasmexport toolcell:tool/guest@0.2.0#describe
func exportDescribe() uint32 {
	to := area(8)
	putText(to, describe())
	return address(to)
}

//go:wasmexport toolcell:tool/guest@0.2.0#invoke
func exportInvoke(id, idLength, tool, toolLength, input, inputLength, attempt, context, contextLength uint32) uint32 {
	call := &Call{InvocationID: lift(id, idLength), Tool: lift(tool, toolLength), Attempt: attempt}
	_ = json.Unmarshal([]byte(lift(context, contextLength)), &call.Context)
	made := run(call, []byte(lift(input, inputLength)))
	to := area(96)
	to[0] = byte(made.kind)
	switch made.kind {
	case isText, isJSON:
		putText(to[8:], made.text)
	case isSuccess:
		putOutput(to[8:], made)
	case isPartial:
		putOutput(to[8:], made)
		putError(to[40:], made.err)
	case isFailure:
		putError(to[8:], made.err)
	}
	return address(to)
}

func putOutput(to []byte, made outcome) {
	putText(to, made.text)
	putOptional(to[8:], made.structured)
	putOptional(to[20:], made.summary)
}

func putError(to []byte, err Error) {
	to[0] = byte(err.Class)
	putText(to[4:], err.Word)
	putText(to[12:], err.Code)
	putText(to[20:], err.Message)
	if err.Detail != "" {
		putOptional(to[28:], &err.Detail)
	}
	if err.RetryAfterMs > 0 {
		to[40] = 1
		binary.LittleEndian.PutUint64(to[48:], err.RetryAfterMs)
	}
}

//go:wasmimport toolcell:tool/progress@0.2.0 report
func hostReport(message, at, length, percent uint32, value float64, step, stepAt, stepLength, steps, stepCount, read uint32, readCount uint64,
	written uint32, writtenCount uint64, lines uint32, lineCount uint64)

//go:wasmimport toolcell:tool/progress@0.2.0 partial-result
func hostPartialResult(at, length, result uint32)

//go:wasmimport toolcell:tool/log@0.2.0 log
func hostLog(level, at, length, some, fields, fieldsLength uint32)

//go:wasmimport toolcell:tool/cancellation@0.2.0 requested
func hostRequested(result uint32)

//go:wasmimport toolcell:tool/cancellation@0.2.0 acknowledge
func hostAcknowledge()

//go:wasmimport toolcell:tool/interaction@0.2.0 responses
func hostResponses(result uint32)

//go:wasmimport toolcell:tool/interaction@0.2.0 resume-state
func hostResumeState(result uint32)

//go:wasmimport toolcell:tool/interaction@0.2.0 ask
func hostAsk(questions, count, state, length uint32)

func given[T any](value *T) (uint32, T) {
	if value == nil {
		var none T
		return 0, none
	}
	return 1, *value
}

func word(text string) (some, at, length uint32) {
	if text == "" {
		return 0, 0, 0
	}
	at, length = lower(text)
	return 1, at, length
}

// Report says how far the tool is.
func Report(update Update) {
	message, at, length := word(update.Message)
	step, stepAt, stepLength := word(update.CurrentStep)
	percent, value := given(update.Percent)
	if percent == 1 && math.IsNaN(value) {
		percent = 0
	}
	steps, stepCount := given(update.TotalSteps)
	read, readCount := given(update.BytesRead)
	written, writtenCount := given(update.BytesWritten)
	lines, lineCount := given(update.LineCount)
	hostReport(message, at, length, percent, value, step, stepAt, stepLength, steps, stepCount, read, readCount, written, writtenCount,
		lines, lineCount)
}

// PartialResult hands out blocks that are usable now, as a JSON array. Returns the host's reference.
func PartialResult(content string) string {
	result := area(8)
	at, length := lower(content)
	hostPartialResult(at, length, address(result))
	return textIn(result)
}

// Log writes a line into the log of the call. fields: a JSON object, or the empty string.
func Log(level Level, message, fields string) {
	at, length := lower(message)
	some, fieldsAt, fieldsLength := word(fields)
	hostLog(uint32(level), at, length, some, fieldsAt, fieldsLength)
}

// CancelRequested says why the call was asked to stop; false if it was not. A tool that calls this gets a short time to clean
// up before it is stopped.
func CancelRequested() (AbortReason, bool) {
	result := area(2)
	hostRequested(address(result))
	if result[0] == 0 {
		return "", false
	}
	return reasons[result[1]], true
}

// Acknowledge says that the tool has seen the request to stop, and is cleaning up.
func Acknowledge() { hostAcknowledge() }

//go:wasmimport toolcell:tool/cancellation-signal@0.2.0 subscribe
func hostSubscribe() uint32

//go:wasmimport wasi:clocks/monotonic-clock@0.2.6 subscribe-duration
func hostPause(nanoseconds uint64) uint32

//go:wasmimport wasi:io/poll@0.2.6 poll
func hostPoll(list, count, result uint32)

// Wait ends at once if a stop is requested before or meanwhile.
func Wait(duration time.Duration) (AbortReason, bool) {
	list, result := area(8), area(8)
	stop, pause := hostSubscribe(), hostPause(uint64(max(0, duration)))
	binary.LittleEndian.PutUint32(list, stop)
	binary.LittleEndian.PutUint32(list[4:], pause)
	hostPoll(address(list), 2, address(result))
	dropPollable(stop)
	dropPollable(pause)
	return CancelRequested()
}

func responses() string {
	result := area(8)
	hostResponses(address(result))
	return textIn(result)
}

// ResumeState returns the state of the last Ask; empty in the first instance.
func ResumeState() []byte {
	result := area(8)
	hostResumeState(address(result))
	return []byte(textIn(result))
}

// Ask asks the user. It does not return: a fresh instance gets the same call, and the answers.
func Ask(state []byte, questions ...Question) {
	list := area(24 * len(questions))
	for i, question := range questions {
		to := list[24*i:]
		putText(to, question.Key)
		putText(to[8:], question.Message)
		putText(to[16:], question.schema())
	}
	at, length := lowerBytes(string(state))
	hostAsk(address(list), uint32(len(questions)), at, length)
}

//go:wasmimport toolcell:tool/artifacts@0.2.0 create
func hostCreate(name, nameLength, kind, kindLength, result uint32)

//go:wasmimport toolcell:tool/artifacts@0.2.0 [method]artifact.write
func hostWrite(artifact, at, length, result uint32)

//go:wasmimport toolcell:tool/artifacts@0.2.0 [static]artifact.finish
func hostFinish(artifact, result uint32)

//go:wasmimport toolcell:tool/artifacts@0.2.0 [resource-drop]artifact
func hostDropArtifact(artifact uint32)

//go:wasmimport toolcell:tool/context-modifiers@0.2.0 modify
func hostModify(key, keyLength, value, length, result uint32)

// The classes of the host's errors, in the order of the contract.
var (
	storeErrors  = []Class{CapabilityGap, ResultTooLarge, ExecutionFailed, DependencyUnavailable}
	modifyErrors = []Class{CapabilityGap, ExecutionFailed, ResultTooLarge}
)

// refusal is the error of a result of the host, whose sentence is for the author; nil if there is none.
func refusal(result []byte, classes []Class, code string) error {
	if result[0] == 0 {
		return nil
	}
	return Errorf(classes[result[4]], code, "%s", textIn(result[8:]))
}

// CreateArtifact begins a file. At most 8 are open at once.
func CreateArtifact(name, mediaType string) (*Artifact, error) {
	result := area(16)
	at, length := lower(name)
	kind, kindLength := lower(mediaType)
	hostCreate(at, length, kind, kindLength, address(result))
	if err := refusal(result, storeErrors, "artifact_refused"); err != nil {
		return nil, err
	}
	return &Artifact{handleIn(result[4:])}, nil
}

func (a *Artifact) write(content []byte) error {
	result := area(16)
	at, length := lowerBytes(string(content))
	hostWrite(a.handle, at, length, address(result))
	// No later write needs these bytes.
	kept = kept[:len(kept)-1]
	err := refusal(result, storeErrors, "artifact_refused")
	if err != nil {
		hostDropArtifact(a.handle)
	}
	return err
}

func (a *Artifact) finish() (string, error) {
	result := area(16)
	hostFinish(a.handle, address(result))
	if err := refusal(result, storeErrors, "artifact_refused"); err != nil {
		return "", err
	}
	return textIn(result[4:]), nil
}

func modifyContext(key, value string) error {
	result := area(16)
	at, length := lower(key)
	text, textLength := lower(value)
	hostModify(at, length, text, textLength, address(result))
	return refusal(result, modifyErrors, "context_refused")
}

//go:wasmimport toolcell:tool/tools@0.2.0 list
func hostList(result uint32)

//go:wasmimport toolcell:tool/tools@0.2.0 call
func hostCall(tool, toolLength, input, length, result uint32)

// CallableTools returns the tools that this call may call.
func CallableTools() []Callable {
	list := area(8)
	hostList(address(list))
	var found []Callable
	for i := range binary.LittleEndian.Uint32(list[4:]) {
		entry := []byte(lift(handleIn(list)+16*i, 16))
		found = append(found, Callable{textIn(entry), textIn(entry[8:])})
	}
	return found
}

func callTool(name, input string) (ToolAnswer, error) {
	result := area(104)
	at, length := lower(name)
	text, textLength := lower(input)
	hostCall(at, length, text, textLength, address(result))
	if result[0] != 0 {
		return ToolAnswer{}, errorIn(result[8:])
	}
	got := result[8:]
	answer := ToolAnswer{InvocationID: textIn(got), Content: json.RawMessage(textIn(got[8:]))}
	if got[16] != 0 {
		answer.Structured = json.RawMessage(textIn(got[20:]))
	}
	if got[32] != 0 {
		answer.Missing = errorIn(got[40:])
	}
	return answer, nil
}

func errorIn(from []byte) *Error {
	made := &Error{Class: Class(from[0]), Code: textIn(from[12:]), Message: textIn(from[20:])}
	if made.Class == Other {
		made.Word = textIn(from[4:])
	}
	if from[28] != 0 {
		made.Detail = textIn(from[32:])
	}
	if from[40] != 0 {
		made.RetryAfterMs = binary.LittleEndian.Uint64(from[48:])
	}
	return made
}

// ExportCheck serves the packages validation and configuration, whose exports a component has if it imports them.
func ExportCheck(err error) uint32 {
	to := area(64)
	if err != nil && !isNothing(err) {
		to[0] = 1
		putError(to[8:], failed(err).err)
	}
	return address(to)
}

// ExportBytes serves the package classification.
func ExportBytes(content []byte) uint32 {
	at, _ := lowerBytes(string(content))
	return at
}

// ExportText reads what the host gives to the packages beside this one.
func ExportText(at, length uint32) string { return lift(at, length) }
