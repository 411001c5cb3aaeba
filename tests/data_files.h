// Helpers for data file tests: gzip, and environment variables that are restored.
#pragma once

#include <zlib.h>

#include <cstdlib>
#include <stdexcept>
#include <string>

namespace mantissa::test {

inline std::string gzip(const std::string& bytes) {
  std::string out(bytes.size() + bytes.size() / 100 + 1000, '\0');
  z_stream s{};
  if (deflateInit2(&s, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK) throw std::runtime_error("zlib");
  s.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  s.avail_in = static_cast<uInt>(bytes.size());
  s.next_out = reinterpret_cast<Bytef*>(out.data());
  s.avail_out = static_cast<uInt>(out.size());
  if (deflate(&s, Z_FINISH) != Z_STREAM_END) throw std::runtime_error("zlib");
  out.resize(s.total_out);
  deflateEnd(&s);
  return out;
}

// Sets an environment variable during one test case.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old, had_ = true;
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() { had_ ? ::setenv(name_, old_.c_str(), 1) : ::unsetenv(name_); }

 private:
  const char* name_;
  std::string old_;
  bool had_ = false;
};

}  // namespace mantissa::test
