//go:build wasip1

package configuration

import "toolcell"

//go:wasmexport toolcell:tool/configuration@0.2.0#configure
func exportConfigure(at, length uint32) uint32 {
	return toolcell.ExportCheck(take([]byte(toolcell.ExportText(at, length))))
}
