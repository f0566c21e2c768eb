/* toolcell:version 0.1.0 */
#include "toolcell.h"

#include <ctype.h>

/* {"text": ".."}: answers how many words it has. */
static void count(toolcell_call *call) {
    const char *text = toolcell_get_string(call->input, "text", "");
    int words = 0;
    for (bool inside = false; *text; text++) {
        bool space = isspace((unsigned char)*text);
        words += !space && !inside;
        inside = !space;
    }
    toolcell_text(call, "%d words", words);
}

static const toolcell_field count_arguments[] = {
    {.name = "text", .type = TOOLCELL_STRING, .description = "The text to count in."},
    {.name = NULL},
};

TOOLCELL_TOOLKIT("{{name}}", {.name = "count",
                           .description = "Counts the words of a text.",
                           .run = count,
                           .arguments = count_arguments,
                           .more = "\"content_types\": [\"text\"]"});
