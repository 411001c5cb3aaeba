// Decompositions of matrices: the least milliseconds of a few calls, for bench/linalg_torch.py, which times PyTorch's
// beside them.
//   linalg_bench f32|f64 N|BATCHxN [seconds for each=0.2]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>

#include "autograd/grad_mode.h"
#include "core/ops_matrix.h"
#include "core/random.h"

using namespace mantissa;

namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
void time_calls(const char* name, double seconds, const std::function<void()>& call) {
  double best = 1e9;
  int runs = 0;
  for (const double end = now() + seconds; now() < end || runs < 3; ++runs) {
    const double begin = now();
    call();
    best = std::min(best, now() - begin);
  }
  std::printf("%s: %.6f ms\n", name, best * 1e3);
}

}  // namespace

int main(int argc, char** argv) try {
  check(argc > 2, "linalg_bench f32|f64 N|BATCHxN [seconds]");
  const TensorOptions options{.dtype = std::string(argv[1]) == "f64" ? f64 : f32};
  const std::string sizes = argv[2];
  const std::size_t x = sizes.find('x');
  const std::int64_t n = std::atoll(sizes.c_str() + (x == std::string::npos ? 0 : x + 1));
  const Dims shape =
      x == std::string::npos ? Dims{n, n} : Dims{static_cast<std::int64_t>(std::atoll(sizes.c_str())), n, n};
  const double seconds = argc > 3 ? std::atof(argv[3]) : 0.2;
  const NoGrad no_grad;
  manual_seed(1);
  const Tensor a = randn(shape, options), b = randn(shape, options);
  const Tensor positive = matmul(a, transpose(a)) + static_cast<double>(n) * eye(n, options);
  const Tensor symmetric = a + transpose(a), triangle = cholesky(positive);
  time_calls("cholesky", seconds, [&] { cholesky(positive); });
  time_calls("lu_factor", seconds, [&] { lu_factor(a); });
  time_calls("solve_triangular", seconds, [&] { solve_triangular(triangle, b, false); });
  time_calls("solve", seconds, [&] { solve(a, b); });
  time_calls("inv", seconds, [&] { inv(a); });
  time_calls("qr", seconds, [&] { qr(a); });
  if (n > 1024) return 0;
  time_calls("eigh", seconds, [&] { eigh(symmetric); });
  time_calls("eigvalsh", seconds, [&] { eigvalsh(symmetric); });
  time_calls("svd", seconds, [&] { svd(a); });
  time_calls("svdvals", seconds, [&] { svdvals(a); });
  time_calls("pinv", seconds, [&] { pinv(a); });
} catch (const std::exception& e) {
  std::fprintf(stderr, "error: %s\n", e.what());
  return 1;
}
