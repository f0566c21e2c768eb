module tools/{{name}}

go 1.24
