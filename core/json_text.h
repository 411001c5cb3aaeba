// Validates untrusted JSON text before a parser builds a tree from it: a tree takes many times the text's memory, keeps
// one of two members of the same name, and copying or printing a deep one overflows the stack.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace mantissa {

struct JsonLimits {
  int depth = 16;                   // nesting of objects and arrays
  std::int64_t values = 4'000'000;  // values of all kinds, plus member names
};

// Throws FormatError("<where>: ...") if the text is not one JSON value in valid UTF-8, has a duplicate member, or
// exceeds a limit. Text that passes is parsed by nlohmann::json without an error.
void check_json(std::string_view text, const std::string& where, const JsonLimits& limits = {});

}  // namespace mantissa
