// Checks that a reader rejects a bad file with one FormatError: a single line that begins with the path and gives the
// reason.
#pragma once

#include <string>

#include "catch_compat.h"
#include "core/error.h"
#include "temp_dir.h"

namespace mantissa::test {

template <class Read> void refuses_file(Read&& read, const std::string& path, const std::string& fragment) {
  INFO("expected a refusal with: " << fragment);
  REQUIRE_THROWS_AS(read(path), FormatError);
  const std::string message = message_of([&] { read(path); });
  CHECK(message.find(path) == 0);
  CHECK_THAT(message, Catch::Matchers::Contains(fragment));
  CHECK(message.find('\n') == std::string::npos);
  CHECK(message.size() < 600);
}
template <class Read> void refuses_bytes(Read&& read, const std::string& bytes, const std::string& fragment) {
  const TempDir dir;
  put_file(dir / "bad", bytes);
  refuses_file(read, dir / "bad", fragment);
}

}  // namespace mantissa::test
