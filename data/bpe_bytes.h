// How byte-level BPE files write bytes: as printable characters. '!' to '~', 0xa1 to 0xac and 0xae to 0xff stand for
// themselves, as in Latin-1; the others, in order, become the characters from U+0100 on: a space is "Ġ". In a new
// vocabulary the bytes are numbered in the order of these characters.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mantissa::data {

const std::array<std::uint16_t, 256>& shown_bytes();              // the character for each byte
const std::array<std::uint8_t, 256>& bytes_in_order();            // bytes sorted by their characters
std::string show_bytes(std::string_view bytes);                   // in UTF-8
std::optional<std::string> unshow_bytes(std::string_view shown);  // absent if it contains other characters

}  // namespace mantissa::data
