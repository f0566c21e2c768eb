// toolcell:version 0.1.0
#include "toolcell.hpp"

using namespace toolcell;

struct Text {
    std::string text;

    static constexpr auto fields = toolcell::fields(field("text", &Text::text, "The text to count in."));
};

static Output count(const Call &, const Text &input) {
    int words = 0;
    bool inside = false;
    for (unsigned char letter : input.text) {
        bool space = letter == ' ' || (letter >= '\t' && letter <= '\r');
        words += !space && !inside;
        inside = !space;
    }
    return std::to_string(words) + " words";
}

TOOLCELL_TOOLKIT("{{name}}", tool<count>("count", "Counts the words of a text.", R"("content_types": ["text"])"));
