// How files of GPT-2's kind write bytes: as characters that can be seen. '!' to '~', 0xa1 to 0xac and 0xae to 0xff
// stand for themselves, as Latin-1 has them; the others, in order, are the characters from U+0100 on: a space is "Ġ".
// In a new vocabulary the bytes are numbered in the order of these characters.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mantissa::data {

const std::array<std::uint16_t, 256>& shown_bytes();              // the character of each byte
const std::array<std::uint8_t, 256>& bytes_in_order();            // of their characters
std::string show_bytes(std::string_view bytes);                   // in UTF-8
std::optional<std::string> unshow_bytes(std::string_view shown);  // absent for other characters

}  // namespace mantissa::data
