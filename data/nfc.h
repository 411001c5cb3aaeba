// Unicode normalisation form C (composition): "e" followed by U+0301 becomes "é".
#pragma once

#include <string>
#include <string_view>

namespace mantissa::data {

// By utf8proc, whose version determines the Unicode version: 15 in Debian 12. Invalid UTF-8 bytes are kept, and nothing
// is composed across them. Takes O(n log n) time for n marks on one letter.
std::string nfc(std::string_view text);

}  // namespace mantissa::data
