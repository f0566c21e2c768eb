//go:build wasip1

package toolcell

import (
	"encoding/binary"
	"strconv"
	"strings"
)

//go:wasmimport wasi:http/types@0.2.6 [constructor]fields
func newFields() uint32

//go:wasmimport wasi:http/types@0.2.6 [method]fields.append
func fieldsAppend(fields, name, nameLength, value, length, result uint32)

//go:wasmimport wasi:http/types@0.2.6 [method]fields.entries
func fieldsEntries(fields, result uint32)

//go:wasmimport wasi:http/types@0.2.6 [resource-drop]fields
func dropFields(fields uint32)

//go:wasmimport wasi:http/types@0.2.6 [constructor]outgoing-request
func newRequest(fields uint32) uint32

//go:wasmimport wasi:http/types@0.2.6 [method]outgoing-request.body
func requestBody(request, result uint32)

//go:wasmimport wasi:http/types@0.2.6 [method]outgoing-request.set-method
func requestMethod(request, method, at, length uint32) uint32

//go:wasmimport wasi:http/types@0.2.6 [method]outgoing-request.set-path-with-query
func requestPath(request, some, at, length uint32) uint32

//go:wasmimport wasi:http/types@0.2.6 [method]outgoing-request.set-scheme
func requestScheme(request, some, scheme, at, length uint32) uint32

//go:wasmimport wasi:http/types@0.2.6 [method]outgoing-request.set-authority
func requestAuthority(request, some, at, length uint32) uint32

//go:wasmimport wasi:http/types@0.2.6 [resource-drop]outgoing-request
func dropRequest(request uint32)

//go:wasmimport wasi:http/types@0.2.6 [method]outgoing-body.write
func bodyWrite(body, result uint32)

//go:wasmimport wasi:http/types@0.2.6 [static]outgoing-body.finish
func bodyFinish(body, some, trailers, result uint32)

//go:wasmimport wasi:http/types@0.2.6 [method]future-incoming-response.subscribe
func futureSubscribe(future uint32) uint32

//go:wasmimport wasi:http/types@0.2.6 [method]future-incoming-response.get
func futureGet(future, result uint32)

//go:wasmimport wasi:http/types@0.2.6 [resource-drop]future-incoming-response
func dropFuture(future uint32)

//go:wasmimport wasi:http/types@0.2.6 [method]incoming-response.status
func responseStatus(response uint32) uint32

//go:wasmimport wasi:http/types@0.2.6 [method]incoming-response.headers
func responseHeaders(response uint32) uint32

//go:wasmimport wasi:http/types@0.2.6 [method]incoming-response.consume
func responseConsume(response, result uint32)

//go:wasmimport wasi:http/types@0.2.6 [resource-drop]incoming-response
func dropResponse(response uint32)

//go:wasmimport wasi:http/types@0.2.6 [method]incoming-body.stream
func bodyStream(body, result uint32)

//go:wasmimport wasi:http/types@0.2.6 [resource-drop]incoming-body
func dropBody(body uint32)

//go:wasmimport wasi:http/outgoing-handler@0.2.6 handle
func handle(request, some, options, result uint32)

//go:wasmimport wasi:io/poll@0.2.6 [method]pollable.block
func pollableBlock(pollable uint32)

//go:wasmimport wasi:io/poll@0.2.6 [resource-drop]pollable
func dropPollable(pollable uint32)

//go:wasmimport wasi:io/error@0.2.6 [resource-drop]error
func dropError(err uint32)

//go:wasmimport wasi:io/streams@0.2.6 [method]input-stream.blocking-read
func streamRead(stream uint32, length uint64, result uint32)

//go:wasmimport wasi:io/streams@0.2.6 [resource-drop]input-stream
func dropInput(stream uint32)

//go:wasmimport wasi:io/streams@0.2.6 [method]output-stream.blocking-write-and-flush
func streamWrite(stream, at, length, result uint32)

//go:wasmimport wasi:io/streams@0.2.6 [resource-drop]output-stream
func dropOutput(stream uint32)

var methods = []string{"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"}

// httpError is the Error of an error-code of wasi:http.
func httpError(code byte) error {
	switch code {
	case 4, 15: // destination-IP-prohibited, HTTP-request-denied
		return Errorf(ExecutionFailed, "not_allowed", "this call may not send that request")
	case 11, 17, 26, 28: // connection-limit-reached, and the limits on bodies and headers
		return Errorf(RateLimited, "limit", "a limit on requests was reached")
	case 0, 8, 9, 10, 33: // the timeouts
		return Errorf(Timeout, "server_timeout", "the server did not answer in time")
	case 1, 2, 3, 6, 7, 12, 13: // DNS, destinations, connections, TLS
		return Errorf(DependencyUnavailable, "unreachable", "the server cannot be reached")
	}
	return broken()
}

func broken() error {
	return Errorf(DependencyUnavailable, "broken_response", "the response is malformed or incomplete")
}

func invalid(what string) error {
	return Errorf(InvalidArguments, "invalid_request", "the request cannot be sent: %s", what)
}

func handleIn(from []byte) uint32 { return binary.LittleEndian.Uint32(from) }

// Send sends a request, and reads the response. It follows no redirect.
func Send(request Request) (Response, error) {
	outgoing, err := outgoing(request)
	if err != nil {
		return Response{}, err
	}
	body := area(8)
	if request.Body != nil {
		requestBody(outgoing, address(body))
	}
	sent := area(40)
	handle(outgoing, 0, 0, address(sent))
	if sent[0] != 0 {
		return Response{}, httpError(sent[8])
	}
	if request.Body != nil && body[0] == 0 {
		upload(handleIn(body[4:]), request.Body)
	}
	future := handleIn(sent[8:])
	waiting := futureSubscribe(future)
	pollableBlock(waiting)
	dropPollable(waiting)
	answer := area(56)
	futureGet(future, address(answer))
	dropFuture(future)
	if answer[0] == 0 || answer[8] != 0 {
		return Response{}, broken()
	}
	if answer[16] != 0 {
		return Response{}, httpError(answer[24])
	}
	response := handleIn(answer[24:])
	defer dropResponse(response)
	return receive(response, request.limit())
}

func outgoing(request Request) (uint32, error) {
	scheme, rest, _ := strings.Cut(request.URL, "://")
	number := map[string]uint32{"http": 0, "https": 1}
	known, ok := number[strings.ToLower(scheme)]
	if !ok {
		return 0, invalid("its URL is neither http nor https")
	}
	rest, _, _ = strings.Cut(rest, "#")
	authority, path := rest, ""
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		authority, path = rest[:i], rest[i:]
	}
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	fields, err := fieldsOf(request)
	if err != nil {
		return 0, err
	}
	method := request.Method
	if method == "" {
		method = "GET"
	}
	made, word := newRequest(fields), uint32(len(methods))
	for i, name := range methods {
		if name == method {
			word = uint32(i)
		}
	}
	at, length := lower(method)
	failed := requestMethod(made, word, at, length) | requestScheme(made, 1, known, 0, 0)
	at, length = lower(authority)
	failed |= requestAuthority(made, 1, at, length)
	at, length = lower(path)
	if failed|requestPath(made, 1, at, length) != 0 {
		dropRequest(made)
		return 0, invalid("its method or its URL")
	}
	return made, nil
}

func fieldsOf(request Request) (uint32, error) {
	headers := request.Headers
	if request.Body != nil {
		headers = append(append([][2]string{}, headers...), [2]string{"content-length", strconv.Itoa(len(request.Body))})
	}
	fields, result := newFields(), area(2)
	for _, header := range headers {
		name, nameLength := lower(header[0])
		value, length := lowerBytes(header[1])
		fieldsAppend(fields, name, nameLength, value, length, address(result))
		if result[0] != 0 {
			dropFields(fields)
			return 0, invalid("its header " + header[0])
		}
	}
	return fields, nil
}

// A server may respond before it has read everything, so a failed upload is not an error.
func upload(body uint32, bytes []byte) {
	made, result := area(8), area(12)
	bodyWrite(body, address(made))
	if made[0] == 0 {
		stream := handleIn(made[4:])
		// By wasi:io, a write has at most 4096 bytes.
		for len(bytes) > 0 && result[0] == 0 {
			now := min(len(bytes), 4096)
			at, length := lowerBytes(string(bytes[:now]))
			streamWrite(stream, at, length, address(result))
			bytes = bytes[now:]
		}
		if result[0] != 0 && result[4] == 0 {
			dropError(handleIn(result[8:]))
		}
		dropOutput(stream)
	}
	bodyFinish(body, 0, 0, address(area(40)))
}

func receive(response uint32, limit int) (Response, error) {
	made := Response{Status: int(responseStatus(response))}
	fields, list := responseHeaders(response), area(8)
	fieldsEntries(fields, address(list))
	dropFields(fields)
	for i := range binary.LittleEndian.Uint32(list[4:]) {
		entry := []byte(lift(handleIn(list)+16*i, 16))
		made.Headers = append(made.Headers, [2]string{textIn(entry), textIn(entry[8:])})
	}
	body, stream := area(8), area(8)
	responseConsume(response, address(body))
	if body[0] != 0 {
		return made, broken()
	}
	defer dropBody(handleIn(body[4:]))
	bodyStream(handleIn(body[4:]), address(stream))
	if stream[0] != 0 {
		return made, broken()
	}
	defer dropInput(handleIn(stream[4:]))
	for {
		result := area(12)
		streamRead(handleIn(stream[4:]), 1<<16, address(result))
		if result[0] != 0 {
			if result[4] == 1 {
				return made, nil
			}
			dropError(handleIn(result[8:]))
			return made, broken()
		}
		made.Body = append(made.Body, textIn(result[4:])...)
		if len(made.Body) > limit {
			return made, tooLarge(limit)
		}
	}
}
