#include "toolcell.h"

#include <stdio.h>
#include <string.h>

int main(void) {
    toolcell_test_begin();
    toolcell_test_outcome outcome = toolcell_test_call("count", "{\"text\": \"one two three\"}");
    bool passed = outcome.kind == TOOLCELL_IS_TEXT && strcmp(outcome.text, "3 words") == 0;
    printf("%s words are counted: %s\n", passed ? "ok" : "FAILED", outcome.text);
    return passed ? 0 : 1;
}
