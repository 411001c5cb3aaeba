// Protocol buffer decoding: the fields of a message in sequence. Input is untrusted: nothing is read beyond the
// message, and a wrong wire type is an error. Used by io/onnx_file.cpp; io/protobuf.h writes.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "io/file.h"

namespace mantissa::io::protobuf {

class Reader {
 public:
  // `path` is for error messages; both must outlive this.
  Reader(std::string_view message, const std::string& path) : rest_(message), path_(path) {}

  // Advances to the next field; false at the end.
  bool next() {
    if (rest_.empty()) return false;
    const std::uint64_t key = varint();
    field_ = static_cast<int>(key >> 3 & 0x1fffffff);
    kind_ = static_cast<int>(key & 7);
    if (kind_ == 0) number_ = varint();
    else if (kind_ == 1) bytes_ = take(8);
    else if (kind_ == 2) bytes_ = take(varint());
    else if (kind_ == 5) bytes_ = take(4);
    else fail_format(path_, "is no protocol buffer: field ", field_, " is stored in the unknown way ", kind_);
    return true;
  }
  int field() const { return field_; }

  std::int64_t integer() const { return expect(0), static_cast<std::int64_t>(number_); }
  std::string_view bytes() const { return expect(2), bytes_; }
  std::string text() const { return std::string(bytes()); }
  float real() const { return expect(5), raw<float>(bytes_); }
  Reader message() const { return {bytes(), path_}; }

  // Repeated numbers, packed or not.
  void add_to(std::vector<std::int64_t>& list) const {
    if (kind_ == 0) return list.push_back(integer());
    for (Reader r(bytes(), path_); !r.rest_.empty();) list.push_back(static_cast<std::int64_t>(r.varint()));
  }
  template <class T> void add_to(std::vector<T>& list) const {  // float and double
    if (kind_ == (sizeof(T) == 4 ? 5 : 1)) return list.push_back(raw<T>(bytes_));
    if (bytes().size() % sizeof(T) != 0) fail_format(path_, "is damaged: a list of numbers ends within one");
    for (std::size_t i = 0; i < bytes_.size(); i += sizeof(T)) list.push_back(raw<T>(bytes_.substr(i)));
  }

 private:
  template <class T> static T raw(std::string_view bytes) {
    T value;
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
  void expect(int kind) const {
    if (kind_ != kind)
      fail_format(path_, "is damaged: field ", field_, " is stored in way ", kind_, " instead of ", kind);
  }
  std::string_view take(std::uint64_t length) {
    if (length > rest_.size())
      fail_format(path_, "is truncated or damaged: field ", field_, " has ", length, " bytes, ", rest_.size(),
                  " are left");
    const std::string_view taken = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return taken;
  }
  std::uint64_t varint() {
    std::uint64_t n = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      n |= static_cast<std::uint64_t>(byte & 127) << shift;
      if (byte < 128) return n;
    }
    fail_format(path_, "is no protocol buffer: a number has more than ten bytes");
  }

  std::string_view rest_, bytes_;
  const std::string& path_;
  std::uint64_t number_ = 0;
  int field_ = 0, kind_ = 0;
};

}  // namespace mantissa::io::protobuf
