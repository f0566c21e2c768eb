module toolcell

go 1.24
