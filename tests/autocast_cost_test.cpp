// The overhead of autocast outside regions: a loop over a small operator, called through apply() or through the same
// function without its autocast lines. scripts/autocast_cost.sh runs both under valgrind and compares instruction
// counts.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "core/ops.h"
#include "ops/apply.h"
#include "tests/catch_compat.h"

using namespace mantissa;

namespace {

struct Twice {  // of 16 numbers: little besides the call itself
  static constexpr auto name = "twice";
  static constexpr const char* args[] = {"x"};
  Spec infer(const Tensor& x) const { return like(x); }
  void run(const View& y, const View& x) const {
    const float* from = x.as<float>();
    float* to = y.as<float>();
    for (std::int64_t i = 0, n = x.numel(); i < n; ++i) to[i] = 2 * from[i];
  }
  static constexpr auto vjp() {
    return rules([](Grad g) { return g * 2.0; });
  }
};

// As apply(), step by step, without autocast.
template <class Op> Tensor apply_without(const Op& op, const Tensor& input) {
  const Tensor* x[1] = {&input};
  try {
    const ProfileRange range(ProfileKind::op, Op::name, x);
    const detail::BoundFixed<Op, 1> bound{op, x};
    Tensor moved[1];
    if (detail::check_same_device<Op>(x)) detail::move_numbers(x, moved);
    const bool record = differentiable<Op>() && detail::should_record(x);
    auto y = bound.make();
    auto outs = detail::results(y);
    if (record && outs[0].is_floating())
      outs[0].impl()->node = autograd::NodeRef(new autograd::OpNode<Op, 1, 1>(op, x, outs));
    if (context().anomaly) [[unlikely]] autograd::check_result(detail::results(y)[0], x);
    return y;
  } catch (Error& e) {
    detail::add_operator_context(e, Op::name, Op::args, x);
    throw;
  }
}

}  // namespace

template <class Call> void loop(Call&& call) {
  const char* wish = std::getenv("AUTOCAST_COST_CALLS");
  const long count = wish ? std::atol(wish) : 1;
  Tensor x = full({16}, 1);
  for (const bool wants_gradient : {false, true}) {
    if (wants_gradient) x.requires_grad_();
    for (long i = 0; i < count; ++i) call(x);
  }
}

TEST_CASE("loop with autocast", "[.loop]") {
  loop([](const Tensor& x) { return apply(Twice{}, x); });
}
TEST_CASE("loop without autocast", "[.loop]") {
  loop([](const Tensor& x) { return apply_without(Twice{}, x); });
}

TEST_CASE("A12: outside regions autocast adds less than 2 % to the instructions of a small operator", "[amp]") {
#ifndef __OPTIMIZE__
  MANTISSA_SKIP("this build is not optimized");
#endif
  char self[4096] = {};
  REQUIRE(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
  const int status =
      std::system((std::string("\"") + MANTISSA_SOURCE_DIR + "/scripts/autocast_cost.sh\" \"" + self + "\"").c_str());
  if (WEXITSTATUS(status) == 77) WARN("not measured: valgrind is missing, or this build does not run under it");
  else CHECK(WEXITSTATUS(status) == 0);
}
