// Unicode's normal form C: of the ways to write a character one, the shortest in general. "e" with U+0301 becomes "é".
#pragma once

#include <string>
#include <string_view>

namespace mantissa::data {

// By utf8proc, whose version says which Unicode it is: 15 in Debian 12. Bytes that are no UTF-8 stay, and nothing is
// put together across them. Takes n log n time for n marks on one letter.
std::string nfc(std::string_view text);

}  // namespace mantissa::data
