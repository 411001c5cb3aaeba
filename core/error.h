// Errors a user can cause: check(condition, parts...) throws one readable line. An operator's author states only what
// is wrong ("dim 5 is out of range"); apply() prefixes the operator's name, its arguments, shapes and dtypes
// (see ops/apply.h).
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "core/device.h"
#include "core/dims.h"
#include "core/dtype.h"

namespace mantissa {

class Error : public std::runtime_error {
 public:
  explicit Error(std::string message) : std::runtime_error(message), message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }
  // Prefixes "context: ", once: an error that already names its operator stays as it is.
  void add_context(const std::string& context) {
    if (!has_context_) message_ = context + ": " + message_;
    has_context_ = true;
  }
  // Prefixes "context: " to an error that already names its operator ("while differentiating conv2d").
  void add_outer_context(const std::string& context) { message_ = context + ": " + message_; }
  bool has_context() const { return has_context_; }

 private:
  std::string message_;
  bool has_context_ = false;
};

// A file that is truncated, foreign, corrupt or hostile. The message names file and reason.
class FormatError : public Error {
 public:
  using Error::Error;
};

// A failed allocation; the message says how much was requested and how much is in use.
class OutOfMemory : public Error {
 public:
  using Error::Error;
};

// How a value appears in a message. Further overloads may be defined next to the type they print.
void append_part(std::string&, std::string_view);
void append_part(std::string&, bool);
void append_part(std::string&, long long);
void append_part(std::string&, unsigned long long);
void append_part(std::string&, double);
void append_part(std::string&, const Dims&);  // [2, 3]
void append_part(std::string&, Dtype);        // f32
void append_part(std::string&, Device);       // cuda:0
inline void append_part(std::string& s, int v) { append_part(s, static_cast<long long>(v)); }
inline void append_part(std::string& s, unsigned v) { append_part(s, static_cast<unsigned long long>(v)); }
inline void append_part(std::string& s, long v) { append_part(s, static_cast<long long>(v)); }
inline void append_part(std::string& s, unsigned long v) { append_part(s, static_cast<unsigned long long>(v)); }
inline void append_part(std::string& s, float v) { append_part(s, static_cast<double>(v)); }
inline void append_part(std::string& s, const char* v) { append_part(s, std::string_view(v)); }
inline void append_part(std::string& s, const std::string& v) { append_part(s, std::string_view(v)); }

template <class... Parts> std::string concat(const Parts&... parts) {
  std::string s;
  (append_part(s, parts), ...);
  return s;
}

[[noreturn]] void fail_with(std::string message);
template <class... Parts> [[noreturn, gnu::cold]] void fail(const Parts&... parts) {
  fail_with(concat(parts...));
}
template <class... Parts> void check(bool ok, const Parts&... parts) {
  if (!ok) [[unlikely]] fail(parts...);
}

}  // namespace mantissa

// For internal errors, not the user's: checked in debug builds only.
#ifdef NDEBUG
#define MANTISSA_ASSERT(condition) ((void)0)
#else
#define MANTISSA_ASSERT(condition) \
  ((condition) ? (void)0 : ::mantissa::fail("internal error: " #condition " at " __FILE__))
#endif
