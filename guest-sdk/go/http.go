package toolcell

// Request is one over HTTP. The tool declares With("access", []string{"network"}) and what it reaches.
type Request struct {
	// Method is GET if it is empty.
	Method string
	// URL is absolute, http or https.
	URL     string
	Headers [][2]string
	// Body is sent unless it is nil.
	Body []byte
	// Limit is the maximum size of the response's body in bytes; 0: 1 MiB.
	Limit int
}

// Response is what a server answered.
type Response struct {
	Status  int
	Headers [][2]string
	Body    []byte
}

func (r Request) limit() int {
	if r.Limit > 0 {
		return r.Limit
	}
	return 1 << 20
}

func tooLarge(limit int) error {
	return Errorf(ResultTooLarge, "too_large", "the response is larger than %d bytes", limit)
}
