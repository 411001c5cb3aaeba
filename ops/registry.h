// The registry: one entry per operator, made by MANTISSA_OP(Softmax) next to the operator. Only tests and benchmarks
// read it; programs call operators by symbol, so nothing is lost if the linker drops unused entries. An operator's
// samples generate all its tests (tests/op_test.cpp).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/ops.h"
#include "ops/apply.h"

namespace mantissa {

using Tensors = std::vector<Tensor>;

// One call of an operator: inputs in f64 (tests convert them) and the function to call.
struct Sample {
  Tensors inputs;
  std::function<Tensors(const Tensors&)> call;
  std::function<Tensors(const Tensors&)> reference;  // empty for operators without a reference
  bool differentiable = true;
  bool extreme = false;   // large or special values: finite results, no gradient check
  bool exact_only = false;  // results depend discontinuously on rounding (argmax): not compared across dtypes
  double flops = 0, bytes = 0;  // set by bench()
};

struct ErrorSample {
  Tensors inputs;
  std::function<Tensors(const Tensors&)> call;
  std::string fragment;  // the message must contain it
};

class Samples {
 public:
  explicit Samples(std::uint64_t seed = 1) : seed_(seed) {}

  // Inputs: seeded, f64. randn stays at least 0.05 away from 0, where relu and abs have kinks.
  Tensor randn(const Dims& sizes);
  Tensor uniform(const Dims& sizes, double low, double high);
  Tensor integers(const Dims& sizes, std::int64_t low, std::int64_t high);  // i64, [low, high)
  Tensor booleans(const Dims& sizes);
  Tensor distinct(const Dims& sizes);  // a shuffled range: no ties, for max and pooling

  // A sample of an operator struct on a fixed number of inputs. An undefined input stays undefined.
  template <class Op, std::size_t n> Sample& operator()(const Tensor (&inputs)[n], const Op& op) {
    Sample s;
    s.inputs.assign(inputs, inputs + n);
    s.call = [op](const Tensors& x) {
      return [&]<std::size_t... i>(std::index_sequence<i...>) { return list(apply(op, x[i]...)); }
      (std::make_index_sequence<n>{});
    };
    if constexpr (HasReference<Op>) {
      s.reference = [op](const Tensors& x) {
        return [&]<std::size_t... i>(std::index_sequence<i...>) { return list(Op::reference(op, x[i]...)); }
        (std::make_index_sequence<n>{});
      };
    }
    s.differentiable = differentiable<Op>();
    all.push_back(std::move(s));
    return all.back();
  }
  template <class Op, std::size_t n> Sample& extreme(const Tensor (&inputs)[n], const Op& op) {
    Sample& s = (*this)(inputs, op);
    s.extreme = true;
    return s;
  }
  template <class Op, std::size_t n> void error(const Tensor (&inputs)[n], const Op& op, std::string fragment) {
    errors.push_back({Tensors(inputs, inputs + n),
                      [op](const Tensors& x) {
                        return [&]<std::size_t... i>(std::index_sequence<i...>) { return list(apply(op, x[i]...)); }
                        (std::make_index_sequence<n>{});
                      },
                      std::move(fragment)});
  }
  // The same for any function of Tensors (list operators, composites) that returns a tensor, several, or values and
  // indices.
  template <class F> Sample& call(Tensors inputs, F f) { return keep(std::move(inputs), listing(f), {}); }
  template <class F, class R> Sample& call(Tensors inputs, F f, R reference) {
    return keep(std::move(inputs), listing(f), listing(reference));
  }
  template <class F> void error_call(Tensors inputs, F f, std::string fragment) {
    errors.push_back({std::move(inputs), listing(f), std::move(fragment)});
  }

  static Tensors list(const Tensor& y) { return {y}; }
  template <std::size_t k> static Tensors list(const std::array<Tensor, k>& y) { return Tensors(y.begin(), y.end()); }
  static Tensors list(Tensors y) { return y; }
  static Tensors list(const ValuesIndices& y) { return {y.values, y.indices}; }

  std::vector<Sample> all;
  std::vector<ErrorSample> errors;

 private:
  using Call = std::function<Tensors(const Tensors&)>;
  template <class F> static Call listing(F f) {
    return [f](const Tensors& x) { return list(f(x)); };
  }
  Sample& keep(Tensors inputs, Call f, Call reference);

  std::uint64_t seed_;
  std::uint64_t next_ = 0;
};

struct OpInfo {
  const char* name;
  CastPolicy autocast = CastPolicy::keep;
  bool differentiable = true;
  bool twice_differentiable = true;  // second-order gradcheck runs
  bool is_view = false;              // the result shares storage with an input
  bool composite = false;            // calls other operators only; has no kernel, and a policy only with has_policy
  // composites only: takes part in autocast under its own name (Composite in ops/compose.h)
  bool has_policy = false;
  bool halves = true;                // runs in f16 and bf16
  bool random = false;               // draws from the random generator: repeated calls differ
  bool mutates = false;              // writes into some of its inputs (running statistics)
  std::uint64_t constants = 0;       // bit i: input i has no gradient by design (class weights, running statistics)
  void (*samples)(Samples&) = nullptr;
};

const std::vector<OpInfo>& registry();  // sorted by name

struct RegisterOp {
  explicit RegisterOp(const OpInfo& info);
};

// Inputs whose rule is `no_gradient`; operators with a joint rule declare `constants` themselves.
template <class... F> constexpr std::uint64_t constants_of(const Rules<F...>&) {
  std::uint64_t bits = 0, bit = 1;
  ((bits |= std::is_same_v<F, NoGradient> ? bit : 0, bit <<= 1), ...);
  return bits;
}
template <class F> constexpr std::uint64_t constants_of(const Joint<F>&) { return 0; }

template <class Op> OpInfo info_of() {
  OpInfo info{
      .name = Op::name, .autocast = policy_of<Op>(), .differentiable = differentiable<Op>(), .samples = &Op::samples};
  if constexpr (requires { Op::twice_differentiable; }) info.twice_differentiable = Op::twice_differentiable;
  if constexpr (requires { &Op::view; }) info.is_view = true;
  if constexpr (requires { Op::halves; }) info.halves = Op::halves;
  if constexpr (requires { Op::random; }) info.random = Op::random;
  if constexpr (requires { Op::mutates; }) info.mutates = Op::mutates;
  if constexpr (requires { Op::constants; }) info.constants = Op::constants;
  else if constexpr (HasVjp<Op>) info.constants = constants_of(Op::vjp());
  return info;
}

}  // namespace mantissa

#define MANTISSA_OP_CONCAT_(a, b) a##b
#define MANTISSA_OP_CONCAT(a, b) MANTISSA_OP_CONCAT_(a, b)
// MANTISSA_OP(Softmax): adds the operator to the registry.
#define MANTISSA_OP(...) \
  static const ::mantissa::RegisterOp MANTISSA_OP_CONCAT(registered_, __COUNTER__)(::mantissa::info_of<__VA_ARGS__>());
// MANTISSA_COMPOSITE(flatten, samples): a public function made of other operators only. Fields of OpInfo
// may follow, as in MANTISSA_COMPOSITE(one_hot, samples, .differentiable = false).
#define MANTISSA_COMPOSITE(function, samples_function, ...)                                                 \
  static const ::mantissa::RegisterOp MANTISSA_OP_CONCAT(registered_, __COUNTER__)([] {                     \
    ::mantissa::OpInfo info{.name = #function __VA_OPT__(, ) __VA_ARGS__};                                  \
    info.composite = true;                                                                                  \
    info.samples = samples_function;                                                                        \
    return info;                                                                                            \
  }());
