"""Packs a built program, with a tool, manual pages and completions, in the formats in which toolcell is published."""
