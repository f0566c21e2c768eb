/* The part that is the same in the sandbox and in tests: memory, text, JSON. */
#include "toolcell.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bounds the recursion of the parser below the stack of a component. */
#define DEPTH_MAX 128

/* ---- Memory ---- */

typedef union block {
    union block *next;
    max_align_t aligned;
} block;

static block *blocks;

void *toolcell_allocate(size_t size) {
    block *made = size > SIZE_MAX - sizeof(block) ? NULL : (block *)calloc(1, sizeof(block) + size);
    if (!made) {
        fputs("toolcell: out of memory\n", stderr);
        abort();
    }
    made->next = blocks;
    blocks = made;
    return made + 1;
}

void toolcell_free_all(void) {
    while (blocks) {
        block *next = blocks->next;
        free(blocks);
        blocks = next;
    }
}

const char *toolcell_copy(const char *text, size_t length) {
    char *made = (char *)toolcell_allocate(length + 1);
    memcpy(made, text, length);
    return made;
}

const char *toolcell_format_list(const char *format, va_list list, size_t *made_length) {
    va_list again;
    va_copy(again, list);
    int length = vsnprintf(NULL, 0, format, list);
    *made_length = length < 0 ? 0 : (size_t)length;
    char *made = (char *)toolcell_allocate(*made_length + 1);
    vsnprintf(made, *made_length + 1, format, again);
    va_end(again);
    return made;
}

const char *toolcell_format(const char *format, ...) {
    va_list list;
    size_t length;
    va_start(list, format);
    const char *made = toolcell_format_list(format, list, &length);
    va_end(list);
    return made;
}

/* Returns the size of the character that UTF-8 has at `at`, in bytes; 0 if there is none. */
static size_t character(const unsigned char *at) {
    size_t more = at[0] < 0x80 ? 0 : at[0] < 0xc2 ? 4 : at[0] < 0xe0 ? 1 : at[0] < 0xf0 ? 2 : at[0] < 0xf5 ? 3 : 4;
    if (more == 4) return 0;
    unsigned char least = at[0] == 0xe0 ? 0xa0 : at[0] == 0xf0 ? 0x90 : 0x80;
    unsigned char most = at[0] == 0xed ? 0x9f : at[0] == 0xf4 ? 0x8f : 0xbf;
    /* The NUL at the end of a text follows no first byte. */
    for (size_t i = 1; i <= more; i++, least = 0x80, most = 0xbf) {
        if (at[i] < least || at[i] > most) return 0;
    }
    return more + 1;
}

const char *toolcell_utf8_bytes(const char *text, size_t *length) {
    static const char instead[] = "\xef\xbf\xbd";
    const char *end = text + *length;
    size_t broken = 0, size;
    for (const char *at = text; at < end; at += size ? size : 1) {
        size = character((const unsigned char *)at);
        broken += size == 0;
    }
    if (!broken) return text;
    char *made = (char *)toolcell_allocate(*length + 2 * broken + 1), *to = made;
    while (text < end) {
        size = character((const unsigned char *)text);
        memcpy(to, size ? text : instead, size ? size : 3);
        to += size ? size : 3;
        text += size ? size : 1;
    }
    *length = (size_t)(to - made);
    return made;
}

const char *toolcell_utf8(const char *text) {
    size_t length = strlen(text);
    return toolcell_utf8_bytes(text, &length);
}

const char *toolcell_message(const char *text, size_t length) {
    size_t zeros = 0;
    for (size_t i = 0; i < length; i++) zeros += text[i] == 0;
    char *made = (char *)toolcell_allocate(length + 2 * zeros + 1), *to = made;
    for (size_t i = 0; i < length; i++) {
        size_t size = text[i] ? 1 : 3;
        memcpy(to, text[i] ? &text[i] : "\xef\xbf\xbd", size);
        to += size;
    }
    return toolcell_utf8(made);
}

static void reserve(toolcell_buffer *to, size_t more) {
    if (to->room - to->length > more) return;
    size_t room = 2 * (to->length + more) + 64;
    char *larger = (char *)toolcell_allocate(room);
    if (to->length) memcpy(larger, to->text, to->length);
    to->text = larger;
    to->room = room;
}

void toolcell_append(toolcell_buffer *to, const char *format, ...) {
    va_list list, again;
    va_start(list, format);
    va_copy(again, list);
    int made = vsnprintf(NULL, 0, format, list);
    size_t length = made < 0 ? 0 : (size_t)made;
    reserve(to, length);
    vsnprintf((char *)to->text + to->length, length + 1, format, again);
    to->length += length;
    va_end(again);
    va_end(list);
}

/* The text ends with a zero byte, because memory is allocated as zeros. */
static void put(toolcell_buffer *to, const char *text, size_t length) {
    reserve(to, length);
    memcpy((char *)to->text + to->length, text, length);
    to->length += length;
}

static void put_text(toolcell_buffer *to, const char *text) { put(to, text, strlen(text)); }

static void put_quoted(toolcell_buffer *to, const char *text, size_t length) {
    static const char names[] = "\"\\bfnrt", values[] = "\"\\\b\f\n\r\t";
    const char *plain = text, *end = text + length;
    put(to, "\"", 1);
    for (; text < end; text++) {
        unsigned char letter = (unsigned char)*text;
        if (letter >= 0x20 && letter != '"' && letter != '\\') continue;
        put(to, plain, (size_t)(text - plain));
        plain = text + 1;
        const char *known = letter ? strchr(values, letter) : NULL;
        char code[8] = {'\\', known ? names[known - values] : 'u', 0};
        if (!known) snprintf(code, sizeof code, "\\u%04x", letter);
        put_text(to, code);
    }
    put(to, plain, (size_t)(end - plain));
    put(to, "\"", 1);
}

/* ---- JSON ---- */

struct toolcell_json {
    toolcell_json_kind kind;
    bool truth;
    double number;
    /* Of a number: as it was written. */
    const char *text;
    size_t length;
    const char *name;
    size_t name_length;
    size_t size;
    toolcell_json *first, *last, *next;
    /* The item that was asked for last, and its index. */
    toolcell_json *near;
    size_t near_index;
};

typedef struct {
    const char *at;
    int depth;
} reader;

static toolcell_json *read_value(reader *from);

static void skip_space(reader *from) {
    while (*from->at == ' ' || *from->at == '\t' || *from->at == '\n' || *from->at == '\r') from->at++;
}

static bool take(reader *from, const char *word) {
    size_t length = strlen(word);
    if (strncmp(from->at, word, length) != 0) return false;
    from->at += length;
    return true;
}

static int read_hex(reader *from) {
    int code = 0;
    for (int i = 0; i < 4; i++, from->at++) {
        char digit = *from->at;
        int value = digit >= '0' && digit <= '9'   ? digit - '0'
                    : digit >= 'a' && digit <= 'f' ? digit - 'a' + 10
                    : digit >= 'A' && digit <= 'F' ? digit - 'A' + 10
                                                   : -1;
        if (value < 0) return -1;
        code = code * 16 + value;
    }
    return code;
}

static char *write_utf8(char *to, int code) {
    if (code < 0x80) {
        *to++ = (char)code;
    } else if (code < 0x800) {
        *to++ = (char)(0xc0 | code >> 6);
        *to++ = (char)(0x80 | (code & 63));
    } else if (code < 0x10000) {
        *to++ = (char)(0xe0 | code >> 12);
        *to++ = (char)(0x80 | (code >> 6 & 63));
        *to++ = (char)(0x80 | (code & 63));
    } else {
        *to++ = (char)(0xf0 | code >> 18);
        *to++ = (char)(0x80 | (code >> 12 & 63));
        *to++ = (char)(0x80 | (code >> 6 & 63));
        *to++ = (char)(0x80 | (code & 63));
    }
    return to;
}

/* Reads what follows a backslash. */
static char *read_escape(reader *from, char *to) {
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    char name = *from->at;
    if (name == 'u') {
        from->at++;
        int code = read_hex(from);
        if (code >= 0xd800 && code < 0xdc00 && take(from, "\\u")) {
            int low = read_hex(from);
            if (low < 0xdc00 || low > 0xdfff) return NULL;
            code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        } else if (code >= 0xd800 && code < 0xe000) {
            return NULL;
        }
        return code < 0 ? NULL : write_utf8(to, code);
    }
    const char *known = name ? strchr(names, name) : NULL;
    if (!known) return NULL;
    from->at++;
    *to = values[known - names];
    return to + 1;
}

static const char *read_string(reader *from, size_t *length) {
    if (*from->at != '"') return NULL;
    const char *end = ++from->at;
    while (*end && *end != '"') end += end[0] == '\\' && end[1] ? 2 : 1;
    if (!*end) return NULL;
    /* An escape is never shorter than what it stands for. */
    char *text = (char *)toolcell_allocate((size_t)(end - from->at) + 1), *to = text;
    while (from->at < end) {
        if ((unsigned char)*from->at < 0x20) return NULL;
        if (*from->at != '\\') {
            *to++ = *from->at++;
        } else {
            from->at++;
            if (!(to = read_escape(from, to))) return NULL;
        }
    }
    if (from->at != end) return NULL;
    from->at++;
    *length = (size_t)(to - text);
    return text;
}

static bool digits(const char **at) {
    const char *first = *at;
    while (**at >= '0' && **at <= '9') (*at)++;
    return *at > first;
}

static bool read_number(reader *from, toolcell_json *value) {
    const char *at = from->at;
    if (*at == '-') at++;
    if (*at == '0') at++;
    else if (!digits(&at)) return false;
    if (*at == '.') {
        at++;
        if (!digits(&at)) return false;
    }
    if (*at == 'e' || *at == 'E') {
        at++;
        if (*at == '+' || *at == '-') at++;
        if (!digits(&at)) return false;
    }
    value->kind = TOOLCELL_JSON_NUMBER;
    value->length = (size_t)(at - from->at);
    value->text = toolcell_copy(from->at, value->length);
    value->number = strtod(value->text, NULL);
    from->at = at;
    return true;
}

static toolcell_json *find(const toolcell_json *object, const char *name, size_t length) {
    for (toolcell_json *member = object->first; member; member = member->next) {
        if (member->name_length == length && !memcmp(member->name, name, length)) return member;
    }
    return NULL;
}

static int by_name(const void *a, const void *b) {
    const toolcell_json *one = *(toolcell_json *const *)a, *other = *(toolcell_json *const *)b;
    if (one->name_length != other->name_length) return one->name_length < other->name_length ? -1 : 1;
    return memcmp(one->name, other->name, one->name_length);
}

/* Sorts the names: a search for each would take time with the square of their number, which a caller decides. */
static bool has_duplicates(const toolcell_json *object) {
    if (object->size < 2) return false;
    toolcell_json **members = (toolcell_json **)toolcell_allocate(object->size * sizeof *members);
    size_t count = 0;
    for (toolcell_json *member = object->first; member; member = member->next) members[count++] = member;
    qsort(members, count, sizeof *members, by_name);
    for (size_t i = 1; i < count; i++) {
        if (by_name(&members[i - 1], &members[i]) == 0) return true;
    }
    return false;
}

/* Reads an array or an object behind its bracket. */
static bool read_items(reader *from, toolcell_json *value, bool named, const char *close) {
    value->kind = named ? TOOLCELL_JSON_OBJECT : TOOLCELL_JSON_ARRAY;
    skip_space(from);
    if (take(from, close)) return true;
    for (;;) {
        const char *name = NULL;
        size_t length = 0;
        skip_space(from);
        if (named) {
            if (!(name = read_string(from, &length))) return false;
            skip_space(from);
            if (!take(from, ":")) return false;
        }
        toolcell_json *item = read_value(from);
        if (!item) return false;
        item->name = name;
        item->name_length = length;
        if (value->last) value->last->next = item;
        else value->first = item;
        value->last = item;
        value->size++;
        skip_space(from);
        if (take(from, close)) return !named || !has_duplicates(value);
        if (!take(from, ",")) return false;
    }
}

static toolcell_json *read_value(reader *from) {
    toolcell_json *value = (toolcell_json *)toolcell_allocate(sizeof *value);
    bool valid = false;
    skip_space(from);
    if (++from->depth > DEPTH_MAX) return NULL;
    switch (*from->at) {
    case '{':
        from->at++;
        valid = read_items(from, value, true, "}");
        break;
    case '[':
        from->at++;
        valid = read_items(from, value, false, "]");
        break;
    case '"':
        value->kind = TOOLCELL_JSON_STRING;
        valid = (value->text = read_string(from, &value->length)) != NULL;
        break;
    case 't':
    case 'f':
        value->kind = TOOLCELL_JSON_BOOL;
        value->truth = *from->at == 't';
        valid = take(from, value->truth ? "true" : "false");
        break;
    case 'n':
        valid = take(from, "null");
        break;
    default:
        valid = read_number(from, value);
    }
    from->depth--;
    return valid ? value : NULL;
}

const toolcell_json *toolcell_parse(const char *text) {
    reader from = {text, 0};
    const toolcell_json *value = read_value(&from);
    skip_space(&from);
    return *from.at ? NULL : value;
}

toolcell_json_kind toolcell_kind(const toolcell_json *value) { return value ? value->kind : TOOLCELL_JSON_NULL; }

const toolcell_json *toolcell_get(const toolcell_json *object, const char *name) {
    return toolcell_kind(object) == TOOLCELL_JSON_OBJECT ? find(object, name, strlen(name)) : NULL;
}

size_t toolcell_size(const toolcell_json *value) { return value ? value->size : 0; }

const toolcell_json *toolcell_at(const toolcell_json *value, size_t index) {
    if (!value || index >= value->size) return NULL;
    /* Loops ask for one item after the other, so each search goes on at the last one. */
    toolcell_json *list = (toolcell_json *)value;
    if (!list->near || index < list->near_index) {
        list->near = list->first;
        list->near_index = 0;
    }
    for (; list->near_index < index; list->near_index++) list->near = list->near->next;
    return list->near;
}

const char *toolcell_name_at(const toolcell_json *object, size_t index) {
    const toolcell_json *member = toolcell_at(object, index);
    return member ? member->name : NULL;
}

const char *toolcell_as_string(const toolcell_json *value, const char *otherwise) {
    return toolcell_kind(value) == TOOLCELL_JSON_STRING ? value->text : otherwise;
}

size_t toolcell_string_length(const toolcell_json *value) {
    return toolcell_kind(value) == TOOLCELL_JSON_STRING ? value->length : 0;
}

double toolcell_as_number(const toolcell_json *value, double otherwise) {
    return toolcell_kind(value) == TOOLCELL_JSON_NUMBER ? value->number : otherwise;
}

bool toolcell_as_bool(const toolcell_json *value, bool otherwise) {
    return toolcell_kind(value) == TOOLCELL_JSON_BOOL ? value->truth : otherwise;
}

const char *toolcell_get_string(const toolcell_json *object, const char *name, const char *otherwise) {
    return toolcell_as_string(toolcell_get(object, name), otherwise);
}

double toolcell_get_number(const toolcell_json *object, const char *name, double otherwise) {
    return toolcell_as_number(toolcell_get(object, name), otherwise);
}

int64_t toolcell_as_int(const toolcell_json *value, int64_t otherwise) {
    if (toolcell_kind(value) != TOOLCELL_JSON_NUMBER) return otherwise;
    char *end = NULL;
    errno = 0;
    long long whole = strtoll(value->text, &end, 10);
    if (!*end) return errno ? otherwise : (int64_t)whole;
    /* 2.0 and 2e3 are integers in JSON Schema. Above 2^53 a double does not hold each of them. */
    bool exact = value->number == floor(value->number) && fabs(value->number) <= 9007199254740992.0;
    return exact ? (int64_t)value->number : otherwise;
}

int64_t toolcell_get_int(const toolcell_json *object, const char *name, int64_t otherwise) {
    return toolcell_as_int(toolcell_get(object, name), otherwise);
}

bool toolcell_get_bool(const toolcell_json *object, const char *name, bool otherwise) {
    return toolcell_as_bool(toolcell_get(object, name), otherwise);
}

const char *toolcell_quote_bytes(const char *text, size_t length) {
    toolcell_buffer made = {0};
    put_quoted(&made, text, length);
    return made.text;
}

const char *toolcell_quote(const char *text) { return toolcell_quote_bytes(text, strlen(text)); }

/* What follows a value is set apart from it. No value ends with one of these. */
static void separate(toolcell_buffer *to) {
    if (to->length && !strchr("{[:", to->text[to->length - 1])) put(to, ",", 1);
}

static void put_word(toolcell_buffer *to, const char *word) {
    separate(to);
    put_text(to, word);
}

void toolcell_begin(toolcell_buffer *to, char bracket) {
    separate(to);
    put(to, &bracket, 1);
}

void toolcell_end(toolcell_buffer *to, char bracket) { put(to, &bracket, 1); }

void toolcell_put_bytes(toolcell_buffer *to, const char *text, size_t length) {
    separate(to);
    put_quoted(to, text, length);
}

void toolcell_put_string(toolcell_buffer *to, const char *text) { toolcell_put_bytes(to, text, strlen(text)); }

void toolcell_put_name(toolcell_buffer *to, const char *name) {
    toolcell_put_string(to, name);
    put(to, ":", 1);
}

void toolcell_put_int(toolcell_buffer *to, int64_t value) {
    separate(to);
    toolcell_append(to, "%lld", (long long)value);
}

void toolcell_put_number(toolcell_buffer *to, double value) {
    separate(to);
    if (isfinite(value)) toolcell_append(to, "%.17g", value);
    else put_text(to, "null");
}

void toolcell_put_bool(toolcell_buffer *to, bool value) { put_word(to, value ? "true" : "false"); }

void toolcell_put_json(toolcell_buffer *to, const toolcell_json *value) {
    bool named = toolcell_kind(value) == TOOLCELL_JSON_OBJECT;
    switch (toolcell_kind(value)) {
    case TOOLCELL_JSON_BOOL:
        toolcell_put_bool(to, value->truth);
        break;
    case TOOLCELL_JSON_NUMBER:
        put_word(to, value->text);
        break;
    case TOOLCELL_JSON_STRING:
        toolcell_put_bytes(to, value->text, value->length);
        break;
    case TOOLCELL_JSON_ARRAY:
    case TOOLCELL_JSON_OBJECT:
        toolcell_begin(to, named ? '{' : '[');
        for (const toolcell_json *item = value->first; item; item = item->next) {
            if (named) {
                toolcell_put_bytes(to, item->name, item->name_length);
                put(to, ":", 1);
            }
            toolcell_put_json(to, item);
        }
        toolcell_end(to, named ? '}' : ']');
        break;
    default:
        put_word(to, "null");
    }
}

const char *toolcell_json_of(const toolcell_json *value) {
    toolcell_buffer made = {0};
    toolcell_put_json(&made, value);
    return made.text;
}

void toolcell_set(const toolcell_json *object, const char *name, const toolcell_json *value) {
    toolcell_json *to = (toolcell_json *)object, *member = (toolcell_json *)value;
    member->name = name;
    member->name_length = strlen(name);
    if (to->last) to->last->next = member;
    else to->first = member;
    to->last = member;
    to->size++;
}
