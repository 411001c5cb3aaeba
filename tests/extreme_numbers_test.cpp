// Operators with absurd arguments: the limits of int64 and int, negative sizes, nonexistent dimensions. Every call must
// end in a result or in an Error; under AddressSanitizer and UndefinedBehaviorSanitizer (scripts/check_all.sh) no check
// overflows on the way. $MANTISSA_FUZZ: rounds per operator.
#include <cstdlib>
#include <functional>
#include <random>

#include "autograd/backward.h"
#include "core/ops.h"
#include "core/ops_matrix.h"
#include "core/ops_special.h"
#include "core/random.h"
#include "tests/catch_compat.h"
#include "tests/testing.h"

using namespace mantissa;

namespace {

// The arguments of calls. Numbers are either small or so large that no machine has the memory they ask for.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}

  int below(int n) { return static_cast<int>(random_() % static_cast<std::uint64_t>(n)); }
  std::int64_t length() {
    static constexpr std::int64_t extremes[] = {INT64_MIN, INT64_MIN + 1, -(std::int64_t{1} << 62), -100,
                                                std::int64_t{1} << 62, INT64_MAX - 1, INT64_MAX};
    return below(3) > 0 ? below(9) - 3 : extremes[below(7)];
  }
  // For windows: options that make the result smaller, or that enlarge every dimension or none.
  int reach() {
    static constexpr int extremes[] = {INT32_MIN, INT32_MIN + 1, -100, 100, 1 << 30, INT32_MAX - 1, INT32_MAX};
    return below(3) > 0 ? below(6) - 1 : extremes[below(7)];
  }
  int dim() { return below(4) > 0 ? below(6) - 3 : reach(); }
  template <int n> PerDim<n> reaches() {
    if (below(2)) return reach();
    PerDim<n> each = 1;
    for (int& r : each) r = reach();
    return each;
  }
  template <int n> PerDim<n> borders() { return below(5) > 0 ? below(4) - 1 : below(2) ? INT32_MAX : INT32_MIN; }
  Dims lengths() { return list([&] { return length(); }); }
  Tensor any() {
    const Tensor x = randn(list([&] { return std::int64_t{below(8) > 0 ? below(4) + 1 : 0}; }));
    switch (below(8)) {
      case 0: return (x * 10).to(i64);
      case 1: return x > 0;
      case 2: return x.to(f16);
      case 3: return x.to(bf16);
      default: return below(2) ? x.detach().requires_grad_() : x;
    }
  }
  Tensor floats(int rank) {
    Dims sizes;
    for (int d = 0; d < rank; ++d) sizes.push_back(below(12) > 0 ? below(6) + 1 : 0);
    const Tensor x = randn(sizes).to(below(4) > 0 ? f32 : bf16);
    return below(2) ? x.detach().requires_grad_() : x;
  }
  Tensor indices() {
    Tensor x = randint(-2, 6, list([&] { return std::int64_t{below(4)}; }));
    return below(4) > 0 ? x : x.fill_(below(2) ? -1e18 : 1e18);
  }

 private:
  template <class F> Dims list(F&& next) {
    Dims all;
    for (int n = below(5); n > 0; --n) all.push_back(next());
    return all;
  }
  std::mt19937_64 random_;
};

struct Call {
  const char* text;
  std::function<Tensor(Draw&)> run;
};
Tensor first(const std::vector<Tensor>& all) { return all.empty() ? Tensor() : all[0]; }

#define CALL(...) {#__VA_ARGS__, [](Draw& d) -> Tensor { return __VA_ARGS__; }}
const Call calls[] = {
    CALL(sum(d.any(), d.lengths())), CALL(var(d.any(), d.lengths(), false, d.reach())),
    CALL(norm(d.any(), 2, d.lengths())), CALL(logsumexp(d.any(), d.lengths())), CALL(max(d.any(), d.dim()).values),
    CALL(median(d.any(), d.dim()).values), CALL(kthvalue(d.any(), d.length(), d.dim()).values),
    CALL(topk(d.any(), d.length(), d.dim()).values), CALL(cumsum(d.any(), d.dim())),
    CALL(diff(d.any(), d.below(5) - 1, d.dim())), CALL(softmax(d.any(), d.dim())), CALL(glu(d.any(), d.dim())),
    CALL(layer_norm(d.any(), d.lengths())), CALL(group_norm(d.any(), d.length())),
    CALL(rotary_embedding(d.any(), d.length())),
    // diagonals and triangles
    CALL(tril(d.any(), d.length())), CALL(triu(d.any(), d.length())),
    CALL(diagonal(d.any(), d.length(), d.dim(), d.dim())), CALL(diag(d.any(), d.length())),
    CALL(diag_embed(d.any(), d.length())), CALL(diagflat(d.any(), d.length())),
    // indices
    CALL(gather(d.any(), d.dim(), d.indices())), CALL(take(d.any(), d.indices())),
    CALL(scatter_add(d.any(), d.dim(), d.indices(), d.any())), CALL(scatter(d.any(), d.dim(), d.indices(), 2)),
    CALL(index_select(d.any(), d.dim(), d.indices())), CALL(index_add(d.any(), d.dim(), d.indices(), d.any())),
    CALL(index_fill(d.any(), d.dim(), d.indices(), 1)), CALL(embedding(d.floats(2), d.indices())),
    CALL(one_hot(d.indices(), d.length())), CALL(bincount(d.indices(), {}, d.length())),
    CALL(cross_entropy(d.floats(2), d.indices())), CALL(first(unravel_index(d.indices(), d.lengths()))),
    // shapes
    CALL(reshape(d.any(), d.lengths())), CALL(expand(d.any(), d.lengths())), CALL(permute(d.any(), d.lengths())),
    CALL(d.any().as_strided(d.lengths(), d.lengths(), d.length())), CALL(flatten(d.any(), d.dim(), d.dim())),
    CALL(unflatten(d.any(), d.dim(), d.lengths())), CALL(slice(d.any(), d.dim(), d.length(), d.length(), d.length())),
    CALL(select(d.any(), d.dim(), d.length())), CALL(narrow(d.any(), d.dim(), d.length(), d.length())),
    CALL(unfold(d.any(), d.dim(), d.length(), d.length())), CALL(first(split(d.any(), d.length(), d.dim()))),
    CALL(first(split(d.any(), d.lengths(), d.dim()))), CALL(roll(d.any(), d.lengths(), d.lengths())),
    CALL(flip(d.any(), d.lengths())), CALL(repeat(d.any(), d.lengths())), CALL(cat({d.any(), d.any()}, d.dim())),
    CALL(repeat_interleave(d.any(), d.length(), d.dim())), CALL(rot90(d.any(), d.reach(), d.lengths())),
    CALL(pad(d.any(), d.lengths())), CALL(pad(d.any(), d.lengths(), "reflect")),
    CALL(pad(d.any(), d.lengths(), "replicate")), CALL(pad(d.any(), d.lengths(), "circular")),
    CALL(pixel_shuffle(d.any(), d.reach())), CALL(pixel_unshuffle(d.any(), d.reach())),
    CALL(channel_shuffle(d.any(), d.reach())), CALL(affine_grid(d.floats(3), d.lengths())),
    // made of numbers
    CALL(zeros(d.lengths())), CALL(eye(d.length())), CALL(randperm(d.length())), CALL(linspace(0, 1, d.length())),
    CALL(randint(d.length(), d.length(), {3})), CALL(hann_window(d.length())),
    CALL(kaiser_window(3, true, static_cast<double>(d.length()))), CALL(polygamma(d.length() % 5, d.floats(1))),
    CALL(histc(d.any(), d.length() % 9)),
    // windows
    CALL(conv2d(randn({1, 2, 5, 5}), randn({2, 2, 2, 2}), {},
                {.stride = d.reaches<2>(), .padding = d.borders<2>(), .dilation = d.reaches<2>(),
                 .groups = d.reach()})),
    CALL(conv3d(randn({1, 2, 3, 4, 5}), randn({2, 2, 2, 2, 2}), {},
                {.stride = d.reaches<3>(), .padding = d.borders<3>(), .dilation = d.reaches<3>()})),
    CALL(conv_transpose2d(randn({1, 2, 3, 3}), randn({2, 1, 2, 2}), {},
                          {.stride = d.borders<2>(), .padding = d.borders<2>(), .output_padding = d.borders<2>(),
                           .dilation = d.borders<2>()})),
    CALL(conv_transpose3d(randn({1, 2, 3, 3, 3}), randn({2, 1, 2, 2, 2}), {},
                          {.stride = d.borders<3>(), .padding = d.borders<3>(), .output_padding = d.borders<3>(),
                           .dilation = d.borders<3>()})),
    CALL(conv2d_input_grad(d.floats(4), d.floats(4), d.lengths())),
    CALL(max_pool2d(d.floats(4), d.reaches<2>(), {.stride = d.reaches<2>(), .padding = d.borders<2>(),
                                                  .ceil_mode = d.below(2) > 0, .dilation = d.reaches<2>()})),
    CALL(avg_pool2d(d.floats(4), d.reaches<2>(), {.stride = d.reaches<2>(), .padding = d.borders<2>(),
                                                  .ceil_mode = d.below(2) > 0, .divisor_override = d.reach()})),
    CALL(max_pool3d(d.floats(5), d.reaches<3>(), {.stride = d.reaches<3>(), .padding = d.borders<3>(),
                                                  .ceil_mode = d.below(2) > 0, .dilation = d.reaches<3>()})),
    CALL(avg_pool3d(d.floats(5), d.reaches<3>(), {.stride = d.reaches<3>(), .padding = d.borders<3>()})),
    CALL(lp_pool2d(d.floats(4), 2, d.reaches<2>(), d.reaches<2>(), d.below(2) > 0)),
    CALL(adaptive_avg_pool2d(d.floats(4), d.borders<2>())), CALL(adaptive_max_pool2d(d.floats(4), d.borders<2>())),
    CALL(adaptive_max_pool3d(d.floats(5), d.borders<3>())),
    CALL(fractional_max_pool2d(d.floats(4), d.reaches<2>(), d.reaches<2>())),
    CALL(max_unpool2d(randn({1, 1, 2, 2}), randint(0, 20, {1, 1, 2, 2}), d.borders<2>(),
                      {.stride = d.borders<2>(), .padding = d.borders<2>()}, d.lengths())),
    CALL(unfold(d.floats(4), d.reaches<2>(),
                {.dilation = d.reaches<2>(), .padding = d.borders<2>(), .stride = d.reaches<2>()})),
    CALL(fold(d.floats(3), d.borders<2>(), d.reaches<2>(),
              {.dilation = d.reaches<2>(), .padding = d.borders<2>(), .stride = d.reaches<2>()})),
    CALL(interpolate(d.floats(4), {.size = d.lengths(), .mode = "bilinear"})),
};

}  // namespace

TEST_CASE("extreme numbers end in a result or in an Error") {
  MANTISSA_PRINT_SEED();
  const char* fuzz = std::getenv("MANTISSA_FUZZ");
  const int rounds = fuzz ? std::atoi(fuzz) : 40;
  std::uint64_t number = test::seed();
  int results = 0, errors = 0;
  for (const Call& call : calls) {
    for (int round = 0; round < rounds; ++round) {
      INFO(call.text << ", round " << round);
      Draw draw(++number);
      manual_seed(number);
      try {
        const Tensor y = call.run(draw);
        if (y.defined() && y.requires_grad()) backward(sum(y));
        ++results;
      } catch (const Error&) { ++errors; }
    }
  }
  CHECK(results > 0);
  CHECK(errors > 0);
}
