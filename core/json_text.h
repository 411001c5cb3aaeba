// Text of unknown origin that should be JSON, looked at before a parser makes a tree of it: a tree takes many times the
// text's memory, keeps one of two members of a name, and copying or printing a deep one overflows the stack.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace mantissa {

struct JsonLimits {
  int depth = 16;                   // of objects and lists in each other
  std::int64_t values = 4'000'000;  // of all kinds, and names of members
};

// Throws FormatError("<where>: ...") for what is not one value in valid UTF-8, has a member twice, or goes beyond a
// limit. What passes is parsed by nlohmann::json without an error.
void check_json(std::string_view text, const std::string& where, const JsonLimits& limits = {});

}  // namespace mantissa
