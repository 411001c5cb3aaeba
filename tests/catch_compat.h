// Catch2 2.13 (Debian 12) and 3.x through one header, and the few helpers every test file needs.
// Link Catch2WithMain; never define CATCH_CONFIG_MAIN. Use only Catch::Matchers names of both versions.
#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#else
#include <catch2/catch.hpp>
#endif

#include <cstdint>
#include <cstdlib>
#include <string>

// Ends a test case that cannot run on this machine; the output shows the reason.
#define MANTISSA_SKIP(message)              \
  do {                                      \
    WARN("skipped: " << message);           \
    SUCCEED();                              \
    return;                                 \
  } while (false)

namespace mantissa::test {

// The seed of a randomized test: $MANTISSA_TEST_SEED, or a fixed one. Print it with INFO.
inline std::uint64_t seed() {
  const char* text = std::getenv("MANTISSA_TEST_SEED");
  return text ? std::strtoull(text, nullptr, 10) : 20240607;
}

// The message of the exception that `f` throws, "" if it throws none.
template <class F> std::string message_of(F&& f) {
  try {
    f();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

}  // namespace mantissa::test
