//go:build wasip1

package classification

import "toolcell"

//go:wasmexport toolcell:tool/classification@0.2.0#classify
func exportClassify(tool, toolLength, input, length uint32) uint32 {
	facts := classify(toolcell.ExportText(tool, toolLength), []byte(toolcell.ExportText(input, length)))
	return toolcell.ExportBytes([]byte{byte(facts.ReadOnly), byte(facts.ConcurrencySafe), byte(facts.Destructive), byte(facts.OpenWorld)})
}
