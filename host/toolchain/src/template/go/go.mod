module tools/{{name}}

// toolcell:version 0.1.0

go 1.24
