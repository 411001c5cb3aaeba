// The inputs of a captured step: of new shapes, however they lie in memory, and those that the step returned itself.
#include <utility>
#include <vector>

#include "core/ops.h"
#include "jit/capture.h"
#include "tests/catch_compat.h"

using namespace mantissa;

TEST_CASE("a captured step follows new shapes, and is simply called on the CPU") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  int calls = 0;
  auto twice = jit::capture([&](const Tensor& x) {
    ++calls;
    return x * 2;
  });
  for (const int n : {3, 5, 3, 5, 3, 5}) {
    const Tensor y = twice(full({n}, 1.5).to(cuda));
    CHECK(y.to(cpu).to_vector<float>() == std::vector<float>(static_cast<std::size_t>(n), 3.0f));
  }
  CHECK(calls == 4);  // once as it is and once recorded, for each shape
  CHECK(twice.recordings() == 2);
  CHECK(twice(full({2}, 4.0)).to_vector<float>() == std::vector<float>{8, 8});
  CHECK(calls == 5);
}

TEST_CASE("a captured step takes inputs that lie in any way") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  const Tensor base = arange(4096).to(cuda), bytes = base.to(u8);
  const auto image = [](const Tensor& x) { return x.slice(0, 0, 120).reshape({2, 3, 4, 5}); };
  struct Case {
    const char* name;
    Tensor first, second;
  };
  const Case cases[] = {
      {"aligned", base.slice(0, 0, 1024), base.slice(0, 1024, 2048)},
      {"of 4 bytes", base.slice(0, 1, 1022), base.slice(0, 3, 1024)},
      {"of a byte", bytes.slice(0, 1, 1000), bytes.slice(0, 6, 1005)},
      {"many blocks and a rest", bytes.slice(0, 0, 3).repeat({11111}), bytes.slice(0, 5, 8).repeat({11111})},
      {"empty", base.slice(0, 0, 0), base.slice(0, 7, 7)},
      {"one element", base.slice(0, 5, 6), base.slice(0, 6, 7)},
      {"with gaps", base.slice(0, 0, 64).reshape({8, 8}), base.slice(0, 64, 192).reshape({8, 16}).slice(1, 3, 11)},
      {"transposed", base.slice(0, 0, 64).reshape({8, 8}), base.slice(0, 64, 128).reshape({8, 8}).transpose(0, 1)},
      {"channels-last", channels_last(image(base)), channels_last(image(base.slice(0, 9, 300)))},
      {"contiguous, then channels-last", image(base), channels_last(image(base.slice(0, 9, 300)))},
      {"channels-last, then contiguous", channels_last(image(base)), image(base.slice(0, 9, 300))},
  };
  for (const Case& c : cases) {
    INFO(c.name);
    auto step = jit::capture([](const Tensor& a, const Tensor& b) { return a.to(f64) * 3 + b.to(f64); });
    for (int i = 0; i < 4; ++i) {
      const Tensor &a = i % 2 == 0 ? c.first : c.second, &b = i % 2 == 0 ? c.second : c.first;
      CHECK(step(a, b).to_vector<double>() == (a.to(f64) * 3 + b.to(f64)).to_vector<double>());
    }
    CHECK(step.replays() == 2);
  }
}

TEST_CASE("a captured step may return its inputs, in another order, and take them again") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  auto step = jit::capture([](const Tensor& a, const Tensor& b, const Tensor& c) {
    return std::vector<Tensor>{b, a, c, a + 2 * b + 4 * c};
  });
  std::vector<Tensor> at{full({5}, 1.0).to(cuda), full({5}, 10.0).to(cuda), full({5}, 100.0).to(cuda)};
  double a = 1, b = 10;
  for (int i = 0; i < 6; ++i) {
    at = step(at[0], at[1], at[2]);
    CHECK(at[3].to_vector<float>() == std::vector<float>(5, static_cast<float>(a + 2 * b + 400)));
    std::swap(a, b);
    CHECK(at[0].to_vector<float>()[4] == a);
  }
}
