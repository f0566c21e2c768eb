#include "toolcell.h"

#include <assert.h>
#include <string.h>

int main(void) {
    toolcell_test_begin();
    toolcell_test_outcome made = toolcell_test_call(
        "order", "{\"name\":\"a\",\"tags\":[],\"parts\":[],\"place\":{\"street\":\"s\"},\"labels\":{},\"extra\":null,\"note\":null}");
    assert(strstr(made.text, "\"place\":{\"street\":\"s\",\"floor\":0}") && strstr(made.text, "\"size\":\"small\",\"count\":1,\"ratio\":0.5"));

    toolcell_test_cancel(TOOLCELL_TIMED_OUT);
    made = toolcell_test_call("wait", "{}");
    assert(!strcmp(made.text, "{\"stopped\":\"timeout\"}") && strstr(toolcell_test_heard(), "acknowledged\n"));

    made = toolcell_test_call("ask", "{}");
    assert(made.kind == TOOLCELL_IS_QUESTION && !strcmp(made.text, "who"));
    toolcell_test_answers("{\"who\":{\"action\":\"accept\",\"content\":{\"name\":\"Ada\"}},\"sure\":{\"action\":\"accept\",\"content\":{\"yes\":true}},"
                          "\"last\":{\"action\":\"accept\",\"content\":{\"n\":3}}}");
    toolcell_test_resume_state("s");
    assert(!strcmp(toolcell_test_call("ask", "{}").text, "Ada true 3 s"));

    toolcell_test_context("{\"scratch\":\"target\",\"cwd\":\"/c\"}");
    assert(strstr(toolcell_test_call("look", "{\"path\":\"sdk.mk\"}").text, "\"cwd\":\"/c\""));
    toolcell_test_offer("other.one", "7");
    assert(!strcmp(toolcell_test_call("relay", "{\"tool\":\"other.one\",\"input\":{}}").text, "{\"answer\":7,\"callable\":true}"));
    toolcell_test_response(200, "pong");
    assert(!strcmp(toolcell_test_call("fetch", "{\"url\":\"http://a\"}").text, "{\"status\":200,\"body\":\"pong\"}"));

    assert(!strcmp(toolcell_test_call("even", "{\"n\":3}").code, "odd"));
    assert(toolcell_test_classify("touch", "{\"change\":true}").read_only == TOOLCELL_NO);
    toolcell_test_settings("{\"unit\":\"mile\"}");
    assert(!strcmp(toolcell_test_call("setting", "{}").text, "mile"));
    return 0;
}
