// How elementwise kernels of the CUDA device divide tensors among threads, in packs, single elements and tiles: lengths
// around the sizes of packs, blocks and tiles, mixtures of dtypes, broadcasting, memory orders and alignments. The
// operations are exact, so that the CPU gives the same bits.
#include <algorithm>
#include <optional>
#include <vector>

#include "core/accelerator.h"
#include "core/ops.h"
#include "core/ops_numeric.h"
#include "core/random.h"
#include "optim/adam.h"
#include "optim/lamb.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;

namespace {

bool nothing_to_test() {
  if (!cuda_is_available()) WARN("no GPU: nothing was tested");
  return !cuda_is_available();
}

Tensor numbers(const Dims& sizes, Dtype dtype, std::uint64_t stream) {
  return cast(random_tensor(sizes, stream, 0, 100), dtype);
}
void check_same(const Tensor& device, const Tensor& host) {
  CHECK(device.dtype() == host.dtype());
  CHECK(same_bits(device.to(cpu), host));
}

// With a block of 256 threads and packs of eight elements: parts of a pack, of a block, and more than a block.
const std::vector<std::int64_t> lengths = {1, 7, 8, 9, 16, 23, 1000, 2040, 2047, 2048, 2049, 2056, 2061, 4096, 5003};

}  // namespace

TEST_CASE("sums of every length and mixture of dtypes") {
  if (nothing_to_test()) return;
  for (const std::int64_t n : lengths) {
    for (const Dtype a : {f32, f16, bf16, f64, i64, i32, u8}) {
      for (const Dtype b : {f32, bf16, u8, boolean}) {
        INFO(n << " elements of " << name_of(a) << " and " << name_of(b));
        const Tensor x = numbers({n}, a, 1), y = numbers({n}, b, 2);
        check_same(x.to(cuda) + y.to(cuda), x + y);
        check_same(x.to(cuda) + 3, x + 3);
        check_same(cast(x.to(cuda), b), cast(x, b));
        check_same(x.to(cuda).slice(0, 1, n) + y.to(cuda).slice(0, 1, n), x.slice(0, 1, n) + y.slice(0, 1, n));
      }
    }
  }
}

TEST_CASE("rows and columns are broadcast over whole packs and parts of them") {
  if (nothing_to_test()) return;
  for (const Dims& sizes : {Dims{5, 8}, Dims{3, 24}, Dims{300, 8}, Dims{70, 40}, Dims{7, 1000}, Dims{9, 13},
                            Dims{2, 2056}, Dims{173, 24}, Dims{59, 72}}) {
    for (const Dtype a : {f32, bf16, i64}) {
      for (const Dtype b : {f32, bf16, u8, boolean}) {
        INFO(concat(sizes, " of ", a, " and ", b));
        const Tensor x = numbers(sizes, a, 1), row = numbers({sizes[1]}, b, 2), column = numbers({sizes[0], 1}, b, 3);
        const Tensor on = x.to(cuda);
        check_same(on + row.to(cuda), x + row);
        check_same(on + column.to(cuda), x + column);
        check_same(where(on > column.to(cuda), row.to(cuda), on), where(x > column, row, x));
        if (!is_floating(a)) continue;
        Tensor into = on.clone();
        into.add_(column.to(cuda));
        check_same(into, x.clone().add_(column));
      }
    }
  }
}

TEST_CASE("products in place, and the parts of floating-point numbers") {
  if (nothing_to_test()) return;
  for (const Dtype dtype : {f32, f16, bf16, f64, i64, i32}) {
    for (const bool transposed : {false, true}) {
      INFO(name_of(dtype) << (transposed ? ", transposed" : ""));
      const Tensor x = numbers({61, 37}, dtype, 1), y = numbers({61, 37}, dtype, 2);
      Tensor on = x.to(cuda), host = x.clone();
      if (transposed) on.t().mul_(y.reshape({37, 61}).to(cuda)), host.t().mul_(y.reshape({37, 61}));
      else on.mul_(y.to(cuda)), host.mul_(y);
      check_same(on, host);
      if (!is_floating(dtype)) continue;
      const auto parts = frexp(transposed ? x.t() : x), parts_on = frexp(transposed ? x.to(cuda).t() : x.to(cuda));
      check_same(parts_on.mantissa, parts.mantissa);
      check_same(parts_on.exponent, parts.exponent);
    }
  }
}

TEST_CASE("dropout draws the CPU's numbers whatever the dtype and length") {
  if (nothing_to_test()) return;
  for (const std::int64_t n : lengths) {
    for (const Dtype dtype : {f32, f16, bf16, f64}) {
      INFO(n << " elements of " << name_of(dtype));
      const Tensor x = numbers({n}, dtype, 1);
      const auto dropped = [&](const Tensor& t) {
        manual_seed(7);
        return dropout(t, 0.5);
      };
      check_same(dropped(x.to(cuda)), dropped(x));
    }
  }
}

TEST_CASE("copies between memory orders keep every element in its place") {
  if (nothing_to_test()) return;
  for (const Dims& sizes : {Dims{8, 8}, Dims{7, 9}, Dims{32, 32}, Dims{33, 31}, Dims{1, 100},
                            Dims{65, 130}, Dims{100, 8}}) {
    for (const Dtype from : {f32, f16, f64, u8, i64, boolean}) {
      for (const Dtype to : {from, f32, bf16, i32}) {
        INFO(concat(sizes, " of ", from, " as ", to));
        const Tensor x = numbers(sizes, from, 1);
        check_same(cast(x.to(cuda).transpose(0, 1), to).contiguous(), cast(x.transpose(0, 1), to).contiguous());
        Tensor y = zeros(sizes, {.dtype = to, .device = cuda});  // written along the other dimension
        y.transpose(0, 1).copy_(x.to(cuda).transpose(0, 1).contiguous());
        check_same(y, cast(x, to));
      }
    }
  }
  for (const Dims& order : {Dims{0, 2, 1, 3}, Dims{0, 3, 1, 2}, Dims{3, 2, 1, 0}, Dims{1, 3, 0, 2}, Dims{2, 3, 0, 1}}) {
    for (const Dims& sizes : {Dims{3, 10, 12, 9}, Dims{2, 33, 5, 40}, Dims{40, 2, 3, 36}}) {
      for (const Dtype dtype : {f32, bf16, u8}) {
        INFO(concat(sizes, " of ", dtype, " in the order ", order));
        const Tensor x = numbers(sizes, dtype, 1), moved = permute(x, order);
        check_same(permute(x.to(cuda), order).contiguous(), moved.contiguous());
        const Dims last = moved.sizes();  // a part: strides with gaps, no alignment
        check_same(permute(x.to(cuda), order).slice(3, 1, last[3]).slice(0, 1, last[0]).contiguous(),
                   moved.slice(3, 1, last[3]).slice(0, 1, last[0]).contiguous());
      }
    }
  }
}

TEST_CASE("ranges and permutations are those of the CPU, in every dtype") {
  if (nothing_to_test()) return;
  for (const Dtype dtype : {f32, f16, bf16, f64, i64, i32, u8}) {
    for (const std::int64_t n : {0, 1, 2, 100, 250}) {
      CAPTURE(dtype, n);
      const TensorOptions here{.dtype = dtype}, there{.dtype = dtype, .device = cuda};
      check_same(arange(n, there), arange(n, here));
      if (dtype != u8) check_same(arange(5, 5 - 3 * n, -3, there), arange(5, 5 - 3 * n, -3, here));
      check_same(linspace(0, 100, n, there), linspace(0, 100, n, here));
      if (is_floating(dtype)) check_same(arange(-0.1, 0.7, 0.1, there), arange(-0.1, 0.7, 0.1, here));
      if (is_floating(dtype)) check_same(linspace(-1, 0.3, n, there), linspace(-1, 0.3, n, here));
      manual_seed(7);
      const Tensor on_cpu = randperm(n, here), next = rand({2});
      manual_seed(7);
      check_same(randperm(n, there), on_cpu);
      check_same(rand({2}), next);  // as many random numbers were taken
    }
  }
  for (const std::int64_t n : {300, 1025, 4096, 4097, 50'000}) {  // up to 4096 by one block
    manual_seed(8);
    const Tensor on_cpu = randperm(n);
    manual_seed(8);
    check_same(randperm(n, {.device = cuda}), on_cpu);
  }
  check_same(arange(3, {.device = cuda, .requires_grad = false}), arange(3));
  CHECK(linspace(0, 1, 3, {.device = cuda, .requires_grad = true}).requires_grad());
  check_same(triu_indices(4, 5, 1, {.device = cuda}), triu_indices(4, 5, 1));
  check_same(tril_indices(4, 5, 1, {.dtype = i32, .device = cuda}), tril_indices(4, 5, 1, {.dtype = i32}));
}

TEST_CASE("triangles of matrices of every width, and of views of them") {
  if (nothing_to_test()) return;
  for (const Dims& sizes : {Dims{4, 8}, Dims{3, 16, 16}, Dims{2, 5, 7}, Dims{70, 3, 33}, Dims{1, 600}, Dims{600, 1}}) {
    for (const Dtype dtype : {f32, f16, f64, i64, u8, boolean}) {
      const Tensor x = numbers(sizes, dtype, 1), on = x.to(cuda);
      for (const std::int64_t diagonal : {0, 1, -2, 8, -40, 1000}) {
        CAPTURE(sizes, dtype, diagonal);
        check_same(tril(on, diagonal), tril(x, diagonal));
        check_same(triu(on, diagonal), triu(x, diagonal));
        check_same(triu(on.transpose(-1, -2), diagonal), triu(x.transpose(-1, -2), diagonal));
        check_same(tril(on.slice(-1, 1), diagonal), tril(x.slice(-1, 1), diagonal));
        check_same(tril(on.slice(-2, 1), diagonal), tril(x.slice(-2, 1), diagonal));  // aligned or not
      }
    }
  }
}

TEST_CASE("optimizers update tensors of every length and alignment as on the CPU") {
  if (nothing_to_test()) return;
  constexpr double lr = 0.01;
  constexpr int steps = 3;
  const auto compare = [&]<class O>(const char* name, auto options) {
    for (const Dtype dtype : {f32, bf16, f64}) {
      for (const bool short_state : {false, true}) {
        const optim::MemoryOptions memory{.state_dtype = short_state ? std::optional(bf16) : std::nullopt};
        const auto train = [&](Device device) {
          std::vector<Tensor> parameters;
          for (std::size_t i = 0; i < 2 * lengths.size(); ++i) {
            const std::int64_t n = lengths[i / 2], from = static_cast<std::int64_t>(i % 2);  // 1: not aligned
            const Tensor longer = cast(random_tensor({n + 1}, i), dtype).to(device);
            parameters.push_back(longer.slice(0, from, from + n).detach().requires_grad_());
          }
          O optimizer(parameters, options, memory);
          for (int step = 0; step < steps; ++step) {
            for (std::size_t i = 0; i < parameters.size(); ++i)
              parameters[i].set_grad(cast(random_tensor(parameters[i].sizes(), 100 + i), dtype).to(device));
            optimizer.step();
          }
          return parameters;
        };
        const std::vector<Tensor> device = train(cuda), host = train(cpu);
        Tolerance t = tolerance_for(dtype);
        // The last bit of an f32 may decide how a state is rounded to bf16, and so the last bit of a step.
        if (short_state) t.atol = steps * lr * tolerance_for(bf16).rtol;
        for (std::size_t i = 0; i < host.size(); ++i) {
          INFO(name << ", " << name_of(dtype) << (short_state ? ", state in bf16" : "") << ", parameter " << i);
          CHECK(difference(device[i].detach().to(cpu), host[i], t) == "");
        }
      }
    }
  };
  compare.template operator()<optim::AdamW>("AdamW", optim::AdamWOptions{.lr = lr});
  compare.template operator()<optim::LAMB>("LAMB", optim::LAMBOptions{.lr = lr});
}

TEST_CASE("C++ numbers take the place of tensors on the device, also where kernels read memory") {
  if (nothing_to_test()) return;
  const Tensor table = numbers({5, 3}, f32, 1), logits = numbers({5}, f32, 2), edges = tensor({1.0, 2.5, 7.0});
  check_same(embedding(table.to(cuda), Tensor(3)), embedding(table, Tensor(3)));
  CHECK(all_close(cross_entropy(logits.to(cuda), Tensor(2)).to(cpu), cross_entropy(logits, Tensor(2))));
  check_same(searchsorted(edges.to(cuda), Tensor(3.5)), searchsorted(edges, Tensor(3.5)));
  check_same(bucketize(Tensor(0.5), edges.to(cuda)), bucketize(Tensor(0.5), edges));
  check_same(where(table.to(cuda) > 50.0, table.to(cuda), Tensor(-1.0)), where(table > 50.0, table, Tensor(-1.0)));
}

TEST_CASE("a cumulative product whose factors overflow together keeps its zero") {
  if (nothing_to_test()) return;
  std::vector<double> v(64, 1e200);
  v[0] = 0;
  std::fill(v.begin() + 1, v.begin() + 32, 1.0);
  const Tensor x = from_data(v, {64});
  check_same(cumprod(x.to(cuda), 0), cumprod(x, 0));
}

TEST_CASE("a tensor on the device is printed") {
  if (nothing_to_test()) return;
  const Tensor x = tensor({{1, 2, 3}, {4, 5, 6}}).to(cuda);
  CHECK(to_string(x.t()) == "tensor([[1, 4],\n        [2, 5],\n        [3, 6]], device='cuda:0')");
  CHECK(to_string(arange(5000, {.device = cuda})).find("tensor([   0,    1,    2,  ..., 4997, 4998, 4999]") == 0);
}
