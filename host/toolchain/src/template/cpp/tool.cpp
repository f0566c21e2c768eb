#include "toolcell.hpp"

using namespace toolcell;

// {"text": ".."}: answers how many words it has.
static Output count(const Call &call) {
    int words = 0;
    bool inside = false;
    for (unsigned char letter : call.input()["text"].string()) {
        bool space = letter == ' ' || (letter >= '\t' && letter <= '\r');
        words += !space && !inside;
        inside = !space;
    }
    return std::to_string(words) + " words";
}

static const toolcell_argument count_arguments[] = {
    {"text", TOOLCELL_STRING, "The text to count in.", false},
    {},
};

TOOLCELL_TOOLKIT("{{name}}", tool<count>("count", "Counts the words of a text.", count_arguments, nullptr,
                                            R"("content_types": ["text"])"));
