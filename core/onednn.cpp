// oneDNN 2.6 behind core/onednn.h.
// Invariant: every call into the library happens under OneThread.
#include "core/onednn.h"

#include <dnnl.h>
#include <omp.h>

#include "core/error.h"

namespace mantissa::onednn {
namespace {

// oneDNN asks OpenMP how many threads it may use; under this guard the answer is one.
class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()) {
    if (before_ != 1) omp_set_num_threads(1);
  }
  ~OneThread() {
    if (before_ != 1) omp_set_num_threads(before_);
  }
  OneThread(const OneThread&) = delete;

 private:
  int before_;
};

}  // namespace

void sgemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, const float* a,
           std::int64_t a_row, const float* b, std::int64_t b_row, float beta, float* c, std::int64_t c_row) {
  const OneThread guard;
  const dnnl_status_t status = dnnl_sgemm(transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', m, n, k, 1.0f, a, a_row, b,
                                          b_row, beta, c, c_row);
  check(status == dnnl_success, "oneDNN: sgemm of ", m, " x ", n, " x ", k, " failed with status ", static_cast<int>(status));
}

}  // namespace mantissa::onednn
