module parity

// toolcell:version 0.1.0
// toolcell:license MIT

go 1.24
