// What a function writes to stderr.
#pragma once

#include <cstdio>
#include <string>

#include <unistd.h>

#include "tests/catch_compat.h"

namespace mantissa::test {

template <class F> std::string stderr_of(const F& f) {
  std::FILE* const file = std::tmpfile();
  REQUIRE(file != nullptr);
  std::fflush(stderr);
  const int before = dup(2);
  dup2(fileno(file), 2);
  f();
  std::fflush(stderr);
  dup2(before, 2);
  close(before);
  std::rewind(file);
  std::string text;
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) text += static_cast<char>(c);
  std::fclose(file);
  return text;
}

}  // namespace mantissa::test
