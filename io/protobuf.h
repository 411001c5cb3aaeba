// Protocol buffer encoding: a field is its number and wire type, then its value. A message is the bytes of its fields.
// Used by io/summary_writer.cpp and io/onnx.cpp.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace mantissa::io::protobuf {

static_assert(std::endian::native == std::endian::little, "numbers are little-endian and not swapped here");

inline void put_varint(std::string& s, std::uint64_t n) {
  for (; n >= 128; n >>= 7) s += static_cast<char>(n | 128);
  s += static_cast<char>(n);
}
template <class T> void put_raw(std::string& s, T value) {
  s.append(reinterpret_cast<const char*>(&value), sizeof value);
}
inline void put_integer(std::string& s, int field, std::int64_t n) {
  put_varint(s, static_cast<std::uint64_t>(field) << 3);
  put_varint(s, static_cast<std::uint64_t>(n));
}
inline void put_double(std::string& s, int field, double v) {
  put_varint(s, static_cast<std::uint64_t>(field) << 3 | 1);
  put_raw(s, v);
}
inline void put_float(std::string& s, int field, float v) {
  put_varint(s, static_cast<std::uint64_t>(field) << 3 | 5);
  put_raw(s, v);
}
// The header of a string or message field; its bytes follow.
inline void put_length(std::string& s, int field, std::size_t nbytes) {
  put_varint(s, static_cast<std::uint64_t>(field) << 3 | 2);
  put_varint(s, nbytes);
}
inline void put_bytes(std::string& s, int field, std::string_view bytes) {
  put_length(s, field, bytes.size());
  s += bytes;
}

}  // namespace mantissa::io::protobuf
