//go:build wasip1

package validation

import "toolcell"

//go:wasmexport toolcell:tool/validation@0.2.0#validate-values
func exportValidateValues(tool, toolLength, input, length uint32) uint32 {
	return toolcell.ExportCheck(run(checks, toolcell.ExportText(tool, toolLength), []byte(toolcell.ExportText(input, length))))
}

//go:wasmexport toolcell:tool/validation@0.2.0#preflight
func exportPreflight(tool, toolLength, input, length uint32) uint32 {
	return toolcell.ExportCheck(run(preflights, toolcell.ExportText(tool, toolLength), []byte(toolcell.ExportText(input, length))))
}
