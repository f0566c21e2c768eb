#include <iostream>

#include "toolcell.hpp"

int main() {
    toolcell_test_begin();
    toolcell_test_outcome outcome = toolcell_test_call("count", R"({"text": "one two three"})");
    bool passed = outcome.kind == TOOLCELL_IS_TEXT && outcome.text == std::string("3 words");
    std::cout << (passed ? "ok" : "FAILED") << " words are counted: " << outcome.text << '\n';
    return passed ? 0 : 1;
}
