// Error messages: one line that names the operator, its arguments with shapes and dtypes, and gives advice.
#include "core/error.h"

#include <sstream>

#include "core/ops.h"
#include "core/ops_numeric.h"
#include "core/ops_special.h"
#include "core/stream.h"
#include "tests/testing.h"

using namespace mantissa;
using test::message_of;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

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

TEST_CASE("functions that look at their arguments before an operator runs are named too") {
  const Tensor x = zeros({3, 4});
  const auto says = [](const std::string& text, auto f) { CHECK(message_of(f) == text); };
  says("reshape(x: f32[3, 4]): shape [5, -1] does not divide 12 elements", [&] { x.reshape({5, -1}); });
  says("reshape(x: f32[3, 4]): shape [-1, -1] has more than one -1", [&] { x.reshape({-1, -1}); });
  says(
      "reshape(x: none): an undefined tensor was used where a tensor is needed: one that was never given a value, or "
      "whose module was moved from",
      [] { Tensor().reshape({2}); });
  says("transpose(x: f32[3, 4]): dim 2 is out of range for 2 dimensions", [&] { x.transpose(0, 2); });
  says("flatten(x: f32[3, 4]): dim 2 is out of range for 2 dimensions", [&] { x.flatten(2); });
  says("squeeze(x: f32[3, 4]): dim 5 is out of range for 2 dimensions", [&] { x.squeeze(5); });
  says("unsqueeze(x: f32[3, 4]): dim 7 is out of range for a new dimension: -3 to 2", [&] { x.unsqueeze(7); });
  says("select(x: f32[3, 4]): dim 2 is out of range for 2 dimensions", [&] { x.select(2, 0); });
  says("topk: argsort(x: f32[3, 4]): k = 9 is not between 0 and the size 4 of dimension 1", [&] { topk(x, 9); });
  CHECK_THAT(message_of([&] { one_hot(tensor({1, 5}), 3); }),
             StartsWith("one_hot with 3 classes: ") && Contains("index 5 is out of range"));
}

TEST_CASE("a dim that is none is said with the function that was called, and its tensor") {
  const Tensor x = zeros({3, 4}), at = zeros({3}, {.dtype = i64}), deep = zeros({1, 1, 1, 1, 1, 1, 1, 1});
  const auto says = [](const std::string& name, auto f) {
    CHECK(message_of(f) == name + "(x: f32[3, 4]): dim 7 is out of range for 2 dimensions");
  };
  says("take_along_dim", [&] { take_along_dim(x, at.unsqueeze(1), 7); });
  says("median", [&] { median(x, 7); });
  says("mode", [&] { mode(x, 7); });
  says("kthvalue", [&] { kthvalue(x, 1, 7); });
  says("index_select", [&] { index_select(x, 7, at); });
  says("index_add", [&] { index_add(x, 7, at, x); });
  says("index_copy", [&] { index_copy(x, 7, at, x); });
  says("index_fill", [&] { index_fill(x, 7, at, 1); });
  says("index_reduce", [&] { index_reduce(x, 7, at, x, "prod"); });
  says("rot90", [&] { rot90(x, 1, {0, 7}); });
  says("roll", [&] { roll(x, {1}, {7}); });
  says("repeat_interleave", [&] { repeat_interleave(x, 2, 7); });
  says("movedim", [&] { movedim(x, {7}, {0}); });
  says("unflatten", [&] { unflatten(x, 7, {1, 3}); });
  says("unfold", [&] { unfold(x, 7, 1, 1); });
  says("diff", [&] { diff(x, 1, 7); });
  says("split", [&] { split(x, 2, 7); });
  says("split", [&] { split(x, Dims{1, 2}, 7); });
  says("chunk", [&] { chunk(x, 2, 7); });
  says("tensor_split", [&] { tensor_split(x, 2, 7); });
  says("unbind", [&] { unbind(x, 7); });
  says("narrow", [&] { narrow(x, 7, 0, 1); });
  CHECK_THAT(message_of([&] { unsqueeze(deep, 0); }), StartsWith("unsqueeze(x: ") && Contains("at most 8 dimensions"));
  CHECK_THAT(message_of([&] { unflatten(x, 0, {2, 2}); }), StartsWith("unflatten(x: f32[3, 4]): shape [2, 2]"));
  // A number of parts that would exhaust memory is refused at once.
  const std::int64_t many = std::int64_t{1} << 60;
  CHECK_THAT(message_of([&] { chunk(zeros({0}), many); }), Contains("chunk: ") && Contains("too many"));
  CHECK_THAT(message_of([&] { tensor_split(x, many); }), Contains("tensor_split: "));
}

TEST_CASE("an index names the dimension of the tensor that was indexed") {
  const Tensor x = zeros({3, 4, 5});
  CHECK(message_of([&] { x[{0, 9}]; }) == "index: 9 is out of range for dimension 1 of f32[3, 4, 5]");
  CHECK(message_of([&] { x[{newaxis, ellipsis, -6}]; }) == "index: -6 is out of range for dimension 2 of f32[3, 4, 5]");
  CHECK(message_of([&] { x[{all, slice(0, 2), 5}]; }) == "index: 5 is out of range for dimension 2 of f32[3, 4, 5]");
  CHECK(x[{-1, ellipsis, 4}].sizes() == Dims{4});
  CHECK(x[{newaxis, 2, slice(1, 3), -5}].sizes() == Dims{1, 2});
}

TEST_CASE("sizes, dtypes and devices print as in messages") {
  std::ostringstream out;
  out << zeros({2, 3}).sizes() << ' ' << bf16 << ' ' << cpu;
  CHECK(out.str() == "[2, 3] bf16 cpu");
}
