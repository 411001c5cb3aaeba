// Fused attention against the composition of products and softmax, which is what f64 uses: results, gradients and
// second derivatives, for every instruction set; the same bits for any number of threads.
#include "autograd/backward.h"
#include "core/cpu/isa.h"
#include "core/ops.h"
#include "core/parallel.h"
#include "tests/testing.h"
#include "tests/with_amx.h"

using namespace mantissa;
using cpu_backend::Isa;

namespace {

struct Case {
  Dims query, key, value;
  AttentionOptions options;
  Dims mask = {};
  bool boolean_mask = false;
  bool length_first = false;  // tensors have the memory layout [N, L, H, D]
};
const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {{3, 4}, {5, 4}, {5, 6}, {}},
      {{2, 3, 64, 32}, {2, 3, 64, 32}, {2, 3, 64, 32}, {.dropout_p = 0.1}},
      {{2, 2, 128, 32}, {2, 2, 128, 32}, {2, 2, 128, 32}, {.is_causal = true}, {}, false, true},
      {{1, 2, 45, 7}, {1, 2, 300, 7}, {1, 2, 300, 19}, {.is_causal = true, .scale = 0.4}},
      {{1, 2, 300, 20}, {1, 2, 270, 20}, {1, 2, 270, 33}, {.dropout_p = 0.3}},
      {{2, 4, 50, 16}, {2, 2, 600, 16}, {2, 2, 600, 16}, {.enable_gqa = true}, {50, 600}, true},
      {{2, 4, 30, 24},
       {2, 1, 30, 24},
       {2, 1, 30, 24},
       {.dropout_p = 0.5, .is_causal = true, .enable_gqa = true},
       {},
       false,
       true},
      {{2, 3, 17, 40}, {2, 3, 31, 40}, {2, 3, 31, 40}, {}, {2, 1, 1, 31}, false},
      {{2, 3, 17, 40}, {2, 3, 31, 40}, {2, 3, 31, 40}, {}, {2, 1, 17, 31}, true, true},
      {{20, 1, 9, 8}, {20, 1, 9, 8}, {20, 1, 9, 8}, {.dropout_p = 1}},
  };
  return all;
}

Tensor in_layout(const Tensor& x, bool length_first) {
  return length_first ? transpose(transpose(x, -3, -2).contiguous(), -3, -2) : x;
}
Tensor mask_of(const Case& c) {
  if (c.mask.empty()) return {};
  const Tensor x = test::random_tensor(c.mask, 9);
  if (!c.boolean_mask) return x;
  Tensor may = x > -0.3;
  may.select(-2, 0).fill_(0);  // every key of the first query is masked
  return may;
}

// y and the gradients of query, key and value, from the same numbers in `t`, computed in `compute`.
std::vector<Tensor> run(const Case& c, Dtype t, Dtype compute) {
  std::vector<Tensor> x;
  int stream = 0;
  for (const Dims& d : {c.query, c.key, c.value}) {
    const Tensor numbers = cast(cast(test::random_tensor(d, static_cast<std::uint64_t>(stream++)), t), compute);
    x.push_back(in_layout(numbers, c.length_first).detach().requires_grad_());
  }
  Tensor mask = mask_of(c);
  if (mask.defined() && mask.dtype() != boolean) mask = cast(cast(mask, t), compute);
  manual_seed(11);
  const Tensor y = scaled_dot_product_attention(x[0], x[1], x[2], mask, c.options);
  y.backward(in_layout(cast(cast(test::random_tensor(y.sizes(), 5), t), compute), c.length_first));
  return {y.detach(), x[0].grad(), x[1].grad(), x[2].grad()};
}

}  // namespace

TEST_CASE("fused attention and its gradients agree with the composition in f64, on every instruction set") {
  const test::AmxIfAsked amx;
  const Isa before = cpu_backend::isa();
  for (Dtype t : {f32, f16, bf16}) {
    for (std::size_t i = 0; i < cases().size(); ++i) {
      const Case& c = cases()[i];
      const std::vector<Tensor> expected = run(c, t, f64);
      for (Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512}) {
        if (isa > cpu_backend::best_isa()) {
          WARN("this machine does not run " << cpu_backend::name_of(isa));
          continue;
        }
        cpu_backend::set_isa(isa);
        const std::vector<Tensor> got = run(c, t, t);
        const std::int64_t keys = c.key[c.key.rank() - 2];
        const test::Tolerance tolerance = test::tolerance_for(t, static_cast<double>(keys));
        for (std::size_t k = 0; k < got.size(); ++k) {
          INFO(cpu_backend::name_of(isa) << " " << name_of(t) << " case " << i << " result " << k);
          // With several blocks of keys, gradients are computed from the rounded y.
          const bool from_rounded = is_half(t) && keys > 256 && k > 0;
          const double largest = amax(abs(expected[k])).item<double>();
          const test::Tolerance wider{tolerance.rtol, tolerance.atol + tolerance.rtol * largest};
          CHECK(test::difference(got[k], expected[k], from_rounded ? wider : tolerance) == "");
        }
      }
      cpu_backend::set_isa(before);
    }
  }
}

TEST_CASE("fused attention has the same bits for any number of threads and in any layout") {
  const test::AmxIfAsked amx;
  const int before = num_threads();
  for (std::size_t i = 0; i < cases().size(); ++i) {
    Case c = cases()[i];
    set_num_threads(1);
    const std::vector<Tensor> one = run(c, f32, f32);
    for (int threads : {2, 3}) {
      set_num_threads(threads);
      if (c.query.rank() > 2) c.length_first = !c.length_first;
      const std::vector<Tensor> many = run(c, f32, f32);
      for (std::size_t k = 0; k < one.size(); ++k) {
        INFO("case " << i << " result " << k);
        CHECK(test::same_bits(contiguous(one[k]), contiguous(many[k])));
      }
    }
  }
  set_num_threads(before);
}

TEST_CASE("second derivatives of fused attention are those of the composition") {
  for (std::size_t i : {0, 2, 5, 6, 8}) {
    const Case& c = cases()[i];
    std::vector<std::vector<Tensor>> results;
    for (Dtype compute : {f64, f32}) {
      std::vector<Tensor> x;
      int stream = 0;
      for (const Dims& d : {c.query, c.key, c.value}) {
        const Tensor numbers = cast(cast(test::random_tensor(d, static_cast<std::uint64_t>(stream++)), f32), compute);
        x.push_back(in_layout(numbers, c.length_first).detach().requires_grad_());
      }
      Tensor mask = mask_of(c);
      if (mask.defined() && mask.dtype() != boolean) mask = cast(mask, compute);
      manual_seed(11);
      const Tensor y = scaled_dot_product_attention(x[0], x[1], x[2], mask, c.options);
      const Tensor first = cast(cast(test::random_tensor(y.sizes(), 5), f32), compute);
      const Tensor loss = sum(y * first);
      const std::vector<Tensor> d = grad(loss, {x[0], x[1], x[2]}, {.create_graph = true});
      Tensor total = Tensor(0.0);
      for (const Tensor& one : d) total = total + sum(one * one);
      results.push_back(grad(total, {x[0], x[1], x[2]}));
    }
    for (std::size_t k = 0; k < 3; ++k) {
      INFO("case " << i << " gradient " << k);
      const double length = static_cast<double>(c.key[c.key.rank() - 2]),
                   largest = amax(abs(results[0][k])).item<double>();
      CHECK(test::difference(results[1][k], results[0][k], test::tolerance_for(f32, length, largest)) == "");
    }
  }
}
