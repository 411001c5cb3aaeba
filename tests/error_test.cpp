// Error messages: one line that names the operator, its arguments with shapes and dtypes, and advice.
#include "core/error.h"

#include "core/ops.h"
#include "tests/testing.h"

using namespace mantissa;
using test::message_of;
using Catch::Matchers::Contains;

TEST_CASE("parts of a message print as a reader expects") {
  CHECK(concat("a", 1, -2L, 3u, 4.5, true, Dims{2, 3}, f16, cuda(1), cpu) == "a1-234.5true[2, 3]f16cuda:1cpu");
  CHECK(concat(Dims{}) == "[]");
  CHECK(concat(0.1f, 1e20, std::string("x")) == "0.11e+20x");
}

TEST_CASE("an operator's error is prefixed once with its name and inputs") {
  const Tensor a = zeros({2, 3}), b = zeros({4}, {.dtype = f64});
  CHECK(message_of([&] { add(a, b); }) ==
        "add(a: f32[2, 3], b: f64[4]): sizes [2, 3] and [4] do not broadcast: dimension 1 is 3 and 4");
  CHECK_THAT(message_of([&] { where(a, a, a); }),
             Contains("where(condition: f32[2, 3], a: f32[2, 3], b: f32[2, 3]): the condition must be bool"));
  CHECK_THAT(message_of([&] { add(a, Tensor()); }),
             Contains("add("));  // an undefined input is an error, not a crash
}

TEST_CASE("context is added once, outer context every time") {
  Error e("x is wrong");
  e.add_context("op(x)");
  e.add_context("other");
  e.add_outer_context("while differentiating loss");
  CHECK(std::string(e.what()) == "while differentiating loss: op(x): x is wrong");
}

TEST_CASE("the kinds of errors are one family") {
  CHECK_THROWS_AS([] { throw FormatError("f"); }(), Error);
  CHECK_THROWS_AS([] { throw OutOfMemory("m"); }(), std::runtime_error);
}
