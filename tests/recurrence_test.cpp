// Recurrent layers (ops/recurrence.h) at sizes that are and are not multiples of vectors, tiles and blocks: every cell
// in every dtype and instruction set compared with f64, and the same bits for any number of threads.
#include "ops/recurrence.h"

#include "autograd/backward.h"
#include "autograd/grad_mode.h"
#include "core/cpu/isa.h"
#include "core/ops.h"
#include "core/parallel.h"
#include "core/random.h"
#include "tests/testing.h"
#include "tests/with_amx.h"

using namespace mantissa;
using namespace mantissa::test;
using cpu_backend::Isa;

namespace {

struct Size {
  std::int64_t steps, batch, input, hidden;
};
const Size sizes[] = {{4, 17, 19, 37}, {3, 1, 33, 64}, {2, 30, 8, 33}, {5, 3, 2, 1}, {1, 2, 40, 70}, {1, 40, 9, 18}};

// Output and last c, from `x` = input, both weights, first h, (first c,) (both biases).
Tensor result(Cell cell, const std::vector<Tensor>& x, bool reverse) {
  const bool lstm = cell == Cell::lstm, biased = x.size() > 5 || (!lstm && x.size() > 4);
  const Tensor none, c0 = lstm ? x[4] : none;
  const std::size_t b = lstm ? 5 : 4;
  const RecurrentResult r = recurrent_layer(cell, x[0], x[1], biased ? x[b] : none, x[2], biased ? x[b + 1] : none,
                                            x[3], c0, reverse);
  return lstm ? cat({flatten(r.output), flatten(r.c)}, 0) : flatten(r.output);
}

struct Run {
  Tensor y;
  std::vector<Tensor> gradients;
};
Run run(Cell cell, std::vector<Tensor> x, bool reverse) {
  for (Tensor& t : x) t.requires_grad_();
  const Tensor y = result(cell, x, reverse);
  const Tensor v = cast(random_tensor(y.sizes(), 9), y.dtype());
  return {y.detach(), grad(std::span(&y, 1), x, std::span(&v, 1))};
}

std::vector<Tensor> inputs(Cell cell, const Size& s, bool biased, Dtype dtype) {
  const std::int64_t rows = gates_of(cell) * s.hidden;
  const double bound = 1 / std::sqrt(static_cast<double>(s.hidden));  // as layers begin
  std::vector<Dims> shapes{{s.steps, s.batch, s.input}, {rows, s.input}, {rows, s.hidden}, {s.batch, s.hidden}};
  if (cell == Cell::lstm) shapes.push_back({s.batch, s.hidden});
  if (biased) shapes.insert(shapes.end(), 2, Dims{rows});
  std::vector<Tensor> x;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const bool weight = i == 1 || i == 2;
    x.push_back(cast(random_tensor(shapes[i], i, weight ? -bound : -1, weight ? bound : 1), dtype));
  }
  return x;
}

template <class F>
void for_each_case(const F& f) {
  for (const Cell cell : {Cell::rnn_tanh, Cell::rnn_relu, Cell::lstm, Cell::gru}) {
    for (const Size& s : sizes) {
      const bool reverse = s.batch % 3 == 0;
      INFO("cell " << int(cell) << ", " << s.steps << " steps, " << s.batch << " x " << s.input << ", " << s.hidden);
      f(cell, s, reverse);
    }
  }
}

}  // namespace

TEST_CASE("recurrent layers in every dtype and instruction set are those of f64, rounded once") {
  const test::AmxIfAsked amx;
  const Isa before = cpu_backend::isa();
  MANTISSA_PRINT_SEED();
  for (Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512}) {
    if (isa > cpu_backend::best_isa()) continue;
    cpu_backend::set_isa(isa);
    INFO(cpu_backend::name_of(isa));
    for_each_case([](Cell cell, const Size& s, bool reverse) {
      for (Dtype dtype : {f32, f16, bf16}) {
        INFO(name_of(dtype));
        const std::vector<Tensor> x = inputs(cell, s, !reverse, dtype);
        std::vector<Tensor> exact;
        for (const Tensor& t : x) exact.push_back(cast(t, f64));
        const Run got = run(cell, x, reverse), wanted = run(cell, exact, reverse);
        const auto length = static_cast<double>(s.steps * (s.input + s.hidden));
        CHECK(difference(got.y, wanted.y, tolerance_for(dtype, length)) == "");
        const double bound = dtype == f32 ? 2e-3 : dtype == f16 ? 1e-2 : 1e-1;  // as in op_test
        for (std::size_t i = 0; i < x.size(); ++i) {
          INFO("gradient " << i);
          CHECK(difference(got.gradients[i], wanted.gradients[i], {bound, bound}) == "");
        }
      }
    });
  }
  cpu_backend::set_isa(before);
}

TEST_CASE("recurrent layers give the same bits where nothing is kept for backward") {
  const test::AmxIfAsked amx;
  for_each_case([](Cell cell, const Size& s, bool reverse) {
    for (Dtype dtype : {f64, f32, bf16}) {
      INFO(name_of(dtype));
      const std::vector<Tensor> x = inputs(cell, s, !reverse, dtype);
      const Tensor kept = result(cell, x, reverse);
      const NoGrad none;
      CHECK(same_bits(result(cell, x, reverse), kept));
    }
  });
}

TEST_CASE("recurrent layers give the same bits for 1, 2 and 3 threads") {
  const test::AmxIfAsked amx;
  const int before = num_threads();
  const Size large{3, 33, 40, 130};  // several pieces of work
  for (const Cell cell : {Cell::rnn_relu, Cell::lstm, Cell::gru}) {
    for (Dtype dtype : {f32, bf16, f16}) {
      const std::vector<Tensor> x = inputs(cell, large, true, dtype);
      set_num_threads(1);
      const Run one = run(cell, x, false);
      for (int threads : {2, 3}) {
        set_num_threads(threads);
        const Run many = run(cell, x, false);
        CHECK(same_bits(many.y, one.y));
        for (std::size_t i = 0; i < x.size(); ++i) CHECK(same_bits(many.gradients[i], one.gradients[i]));
      }
    }
  }
  set_num_threads(before);
}
