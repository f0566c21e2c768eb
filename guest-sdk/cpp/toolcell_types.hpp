// Values of C++ from and to JSON, and their JSON Schema. A struct describes its members:
//
//     struct Part {
//         std::string label;
//         int count = 1;
//         static constexpr auto fields = toolcell::fields(
//             toolcell::field("label", &Part::label, "On it.").pattern("^[a-z]+$"),
//             toolcell::field("count", &Part::count, "How many.").minimum(1).optional());
//     };
#ifndef TOOLCELL_TYPES_HPP
#define TOOLCELL_TYPES_HPP

#include <array>
#include <concepts>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "toolcell.h"

namespace toolcell {

// A value of the arguments, which lives as long as the call. A missing one is null, so that lookups can be chained:
// `call.input()["filter"]["limit"].integer(10)`.
class Json {
public:
    Json() = default;
    explicit Json(const toolcell_json *value) : value_(value) {}

    // Null if the text is not JSON.
    static Json parse(const std::string &text) { return Json(toolcell_parse(text.c_str())); }

    toolcell_json_kind kind() const { return toolcell_kind(value_); }
    bool is_null() const { return kind() == TOOLCELL_JSON_NULL; }
    // Whether there is a value, which can be null.
    bool exists() const { return value_ != nullptr; }
    Json operator[](const char *name) const { return Json(toolcell_get(value_, name)); }
    Json at(size_t index) const { return Json(toolcell_at(value_, index)); }
    size_t size() const { return toolcell_size(value_); }
    std::string name_at(size_t index) const {
        const char *name = toolcell_name_at(value_, index);
        return name ? name : "";
    }

    // The value, or `otherwise` if it is of another kind.
    std::string string(std::string_view otherwise = "") const {
        const char *text = toolcell_as_string(value_, nullptr);
        return text ? std::string(text, toolcell_string_length(value_)) : std::string(otherwise);
    }
    double number(double otherwise = 0) const { return toolcell_as_number(value_, otherwise); }
    std::int64_t integer(std::int64_t otherwise = 0) const { return toolcell_as_int(value_, otherwise); }
    bool boolean(bool otherwise = false) const { return toolcell_as_bool(value_, otherwise); }
    std::vector<std::string> strings() const {
        std::vector<std::string> found;
        for (size_t i = 0; i < size(); i++) found.push_back(at(i).string());
        return found;
    }
    void put(toolcell_buffer &to) const { toolcell_put_json(&to, value_); }

private:
    const toolcell_json *value_ = nullptr;
};

// What a field says beside its type.
struct Limits {
    const char *name = nullptr;
    const char *description = nullptr;
    bool is_optional = false, is_nullable = false;
    std::optional<double> low = {}, high = {};
    const char *regex = nullptr;
    std::array<const char *, 32> words = {};
};

template <typename Owner, typename T> struct Field : Limits {
    T Owner::*member = nullptr;

    // May be left out: the member keeps its initial value then, which is the default in the schema. A member of type
    // `std::optional` may always be left out.
    constexpr Field optional() const { return with([](Field &made) { made.is_optional = true; }); }
    // May be null, for a member of type `std::optional`, which may not be left out then.
    constexpr Field nullable() const { return with([](Field &made) { made.is_nullable = true; }); }
    // Limits of the value, or of each value in a list or a map.
    constexpr Field minimum(double value) const { return with([=](Field &made) { made.low = value; }); }
    constexpr Field maximum(double value) const { return with([=](Field &made) { made.high = value; }); }
    constexpr Field pattern(const char *text) const { return with([=](Field &made) { made.regex = text; }); }
    template <typename... Words> constexpr Field choices(Words... words) const {
        return with([=](Field &made) { made.words = {words...}; });
    }

private:
    template <typename Change> constexpr Field with(Change change) const {
        Field made = *this;
        change(made);
        return made;
    }
};

template <typename Owner, typename T>
constexpr Field<Owner, T> field(const char *name, T Owner::*member, const char *description = nullptr) {
    Field<Owner, T> made;
    made.name = name;
    made.description = description;
    made.member = member;
    return made;
}

template <typename... F> constexpr auto fields(F... each) { return std::tuple(each...); }

template <typename T> concept Described = requires { T::fields; };

// `Inner` is what a list, a map or an optional value holds; `void` for others.
template <typename T> struct Shape { using Inner = void; };
template <typename T> struct Shape<std::optional<T>> { using Inner = T; };
template <typename T> struct Shape<std::vector<T>> { using Inner = T; };
template <typename T> struct Shape<std::map<std::string, T>> { using Inner = T; };
template <typename T> constexpr bool is_optional = std::same_as<T, std::optional<typename Shape<T>::Inner>>;
template <typename T> constexpr bool is_list = std::same_as<T, std::vector<typename Shape<T>::Inner>>;
template <typename T> constexpr bool is_map = std::same_as<T, std::map<std::string, typename Shape<T>::Inner>>;

// ---- Values from JSON, which satisfies the schema ----

template <typename T> void read(Json from, T &to) {
    if constexpr (std::same_as<T, Json>) {
        to = from;
    } else if constexpr (std::same_as<T, std::string>) {
        to = from.string();
    } else if constexpr (std::same_as<T, bool>) {
        to = from.boolean();
    } else if constexpr (std::integral<T>) {
        to = static_cast<T>(from.integer());
    } else if constexpr (std::floating_point<T>) {
        to = static_cast<T>(from.number());
    } else if constexpr (Described<T>) {
        auto member = [&](const auto &field) {
            if (from[field.name].exists()) read(from[field.name], to.*field.member);
        };
        std::apply([&](const auto &...each) { (member(each), ...); }, T::fields);
    } else if constexpr (is_optional<T>) {
        to.reset();
        if (!from.is_null()) read(from, to.emplace());
    } else if constexpr (is_list<T>) {
        to.clear();
        for (size_t i = 0; i < from.size(); i++) read(from.at(i), to.emplace_back());
    } else {
        static_assert(is_map<T>, "no JSON for this type");
        to.clear();
        for (size_t i = 0; i < from.size(); i++) read(from.at(i), to[from.name_at(i)]);
    }
}

// ---- Values as JSON ----

template <typename T> void write(toolcell_buffer &to, const T &value) {
    if constexpr (std::same_as<T, Json>) {
        value.put(to);
    } else if constexpr (std::same_as<T, std::string>) {
        toolcell_put_bytes(&to, value.data(), value.size());
    } else if constexpr (std::same_as<T, bool>) {
        toolcell_put_bool(&to, value);
    } else if constexpr (std::integral<T>) {
        toolcell_put_int(&to, static_cast<std::int64_t>(value));
    } else if constexpr (std::floating_point<T>) {
        toolcell_put_number(&to, value);
    } else if constexpr (Described<T>) {
        auto member = [&](const auto &field) {
            if constexpr (is_optional<std::remove_cvref_t<decltype(value.*field.member)>>) {
                if (!(value.*field.member) && !field.is_nullable) return;
            }
            toolcell_put_name(&to, field.name);
            write(to, value.*field.member);
        };
        toolcell_begin(&to, '{');
        std::apply([&](const auto &...each) { (member(each), ...); }, T::fields);
        toolcell_end(&to, '}');
    } else if constexpr (is_optional<T>) {
        if (value) write(to, *value);
        else toolcell_put_json(&to, nullptr);
    } else if constexpr (is_list<T>) {
        toolcell_begin(&to, '[');
        for (const auto &item : value) write(to, item);
        toolcell_end(&to, ']');
    } else {
        static_assert(is_map<T>, "no JSON for this type");
        toolcell_begin(&to, '{');
        for (const auto &[name, item] : value) {
            toolcell_put_name(&to, name.c_str());
            write(to, item);
        }
        toolcell_end(&to, '}');
    }
}

// A text, a number, a list, a map or a struct with `fields` as JSON.
template <typename T> std::string to_json(const T &value) {
    toolcell_buffer made = {};
    write(made, value);
    return std::string(made.text, made.length);
}

// ---- JSON Schema ----

template <typename T> void put_schema(toolcell_buffer &to, const Limits &limits);

inline void put_limits(toolcell_buffer &to, const Limits &limits) {
    if (limits.words[0]) {
        toolcell_put_name(&to, "enum");
        toolcell_begin(&to, '[');
        for (const char *word : limits.words) {
            if (word) toolcell_put_string(&to, word);
        }
        if (limits.is_nullable) toolcell_put_json(&to, nullptr);
        toolcell_end(&to, ']');
    }
    if (limits.low) write(to, (toolcell_put_name(&to, "minimum"), *limits.low));
    if (limits.high) write(to, (toolcell_put_name(&to, "maximum"), *limits.high));
    if (limits.regex) write(to, (toolcell_put_name(&to, "pattern"), std::string(limits.regex)));
}

inline void put_type(toolcell_buffer &to, const char *type, bool is_nullable) {
    toolcell_put_name(&to, "type");
    if (!is_nullable) return toolcell_put_string(&to, type);
    toolcell_begin(&to, '[');
    toolcell_put_string(&to, type);
    toolcell_put_string(&to, "null");
    toolcell_end(&to, ']');
}

// The members of the schema of an object.
template <Described T> void put_fields(toolcell_buffer &to) {
    const T initial = {};
    auto property = [&](const auto &field) {
        using Member = std::remove_cvref_t<decltype(initial.*field.member)>;
        toolcell_put_name(&to, field.name);
        toolcell_begin(&to, '{');
        put_schema<Member>(to, field);
        if (field.description) write(to, (toolcell_put_name(&to, "description"), std::string(field.description)));
        if constexpr (!is_optional<Member>) {
            if (field.is_optional) write(to, (toolcell_put_name(&to, "default"), initial.*field.member));
        }
        toolcell_end(&to, '}');
    };
    auto required = [&](const auto &field) {
        bool may_lack = is_optional<std::remove_cvref_t<decltype(initial.*field.member)>> && !field.is_nullable;
        if (!field.is_optional && !may_lack) toolcell_put_string(&to, field.name);
    };
    toolcell_put_name(&to, "properties");
    toolcell_begin(&to, '{');
    std::apply([&](const auto &...each) { (property(each), ...); }, T::fields);
    toolcell_end(&to, '}');
    toolcell_put_name(&to, "required");
    toolcell_begin(&to, '[');
    std::apply([&](const auto &...each) { (required(each), ...); }, T::fields);
    toolcell_end(&to, ']');
    write(to, (toolcell_put_name(&to, "additionalProperties"), false));
}

// The members of the schema of a type.
template <typename T> void put_schema(toolcell_buffer &to, const Limits &limits) {
    if constexpr (std::same_as<T, Json>) {
        return;
    } else if constexpr (is_optional<T>) {
        put_schema<typename Shape<T>::Inner>(to, limits);
    } else if constexpr (is_list<T> || is_map<T>) {
        Limits inside = limits;
        inside.is_nullable = false;
        put_type(to, is_list<T> ? "array" : "object", limits.is_nullable);
        toolcell_put_name(&to, is_list<T> ? "items" : "additionalProperties");
        toolcell_begin(&to, '{');
        put_schema<typename Shape<T>::Inner>(to, inside);
        toolcell_end(&to, '}');
    } else if constexpr (Described<T>) {
        put_type(to, "object", limits.is_nullable);
        put_fields<T>(to);
    } else {
        Limits own = limits;
        constexpr bool is_integer = std::integral<T> && !std::same_as<T, bool>;
        if constexpr (is_integer) {
            constexpr bool is_small = sizeof(T) < sizeof(std::int64_t);
            if (!own.low && (is_small || std::is_unsigned_v<T>)) own.low = static_cast<double>(std::numeric_limits<T>::min());
            if (!own.high && is_small) own.high = static_cast<double>(std::numeric_limits<T>::max());
        }
        put_type(to,
                 std::same_as<T, bool> ? "boolean" : is_integer ? "integer" : std::floating_point<T> ? "number" : "string",
                 limits.is_nullable);
        put_limits(to, own);
    }
}

// The JSON Schema of a type.
template <typename T> std::string schema_of() {
    toolcell_buffer made = {};
    toolcell_begin(&made, '{');
    put_schema<T>(made, {});
    toolcell_end(&made, '}');
    return std::string(made.text, made.length);
}

} // namespace toolcell

#endif
