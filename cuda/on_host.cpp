// Kernels that no GPU version has been written for: operands travel to the host, the CPU kernel runs there, and
// results travel back. The step waits for that and cannot be captured; the first use of each says so. A
// kernel that gets a version of its own leaves this file.
#include <cstdio>
#include <initializer_list>
#include <span>

#include "core/kernel.h"
#include "core/pool.h"

namespace mantissa {
MANTISSA_KERNEL(copy, const View& y, const View& x)
MANTISSA_KERNEL(logcumsumexp, const View& y, const View& x, int dim)
MANTISSA_KERNEL(cumulative_extreme, const View& values, const View& indices, const View& x, int dim, bool largest)
MANTISSA_KERNEL(scatter_reduce, const View& y, const View& index, const View& source, int kind)
MANTISSA_KERNEL(max_pool3d, const VolumePoolShape& shape, const View& y, const View& index, const View& x)
MANTISSA_KERNEL(avg_pool3d, const VolumePoolShape& shape, const View& y, const View& x)
MANTISSA_KERNEL(avg_pool3d_backward, const VolumePoolShape& shape, const View& dx, const View& g)
MANTISSA_KERNEL(ctc_loss, const View& loss, const View& alpha, const View& log_probs, const View& targets,
                std::span<const std::int64_t> input_lengths, std::span<const std::int64_t> target_lengths, std::int64_t blank)
MANTISSA_KERNEL(ctc_loss_backward, const View& dx, const View& g, const View& log_probs, const View& targets, const View& alpha,
                std::span<const std::int64_t> input_lengths, std::span<const std::int64_t> target_lengths, std::int64_t blank)
}

namespace mantissa::cuda_backend {
namespace {

// A view of the device as a dense tensor of the host; store() brings a result back.
class OnHost {
 public:
  explicit OnHost(const View& v, bool load = true) : there_(v) {
    if (!v) return;
    here_ = Tensor::allocate(v.sizes, v.dtype);
    if (load) kernels::copy(v.device, here_.view(), v);
  }
  View view() const { return here_.view(); }
  void store() const {
    if (there_) kernels::copy(there_.device, there_, here_.view());
  }

 private:
  View there_;
  Tensor here_;
};
OnHost result(const View& v) { return OnHost(v, false); }

void warn_once(bool& told, const char* kernel) {
  if (!told) std::fprintf(stderr, "mantissa: %s has no CUDA kernel and is computed on the host\n", kernel);
  told = true;
}
#define MANTISSA_WARN_ONCE(kernel)  \
  static thread_local bool told = false; \
  warn_once(told, kernel)

}  // namespace

void logcumsumexp(const View& y, const View& x, int dim) {
  MANTISSA_WARN_ONCE("logcumsumexp");
  const OnHost out = result(y), in(x);
  kernels::logcumsumexp(cpu, out.view(), in.view(), dim);
  out.store();
}
void cumulative_extreme(const View& values, const View& indices, const View& x, int dim, bool largest) {
  MANTISSA_WARN_ONCE("cumulative_extreme");
  const OnHost value = result(values), index = result(indices), in(x);
  kernels::cumulative_extreme(cpu, value.view(), index.view(), in.view(), dim, largest);
  value.store();
  index.store();
}
void scatter_reduce(const View& y, const View& index, const View& source, int kind) {
  MANTISSA_WARN_ONCE("scatter_reduce");
  const OnHost out(y), at(index), from(source);  // y holds what is reduced into
  kernels::scatter_reduce(cpu, out.view(), at.view(), from.view(), kind);
  out.store();
}
void max_pool3d(const VolumePoolShape& shape, const View& y, const View& index, const View& x) {
  MANTISSA_WARN_ONCE("max_pool3d");
  const OnHost out = result(y), at = result(index), in(x);
  kernels::max_pool3d(cpu, shape, out.view(), at.view(), in.view());
  out.store();
  at.store();
}
void avg_pool3d(const VolumePoolShape& shape, const View& y, const View& x) {
  MANTISSA_WARN_ONCE("avg_pool3d");
  const OnHost out = result(y), in(x);
  kernels::avg_pool3d(cpu, shape, out.view(), in.view());
  out.store();
}
void avg_pool3d_backward(const VolumePoolShape& shape, const View& dx, const View& g) {
  MANTISSA_WARN_ONCE("avg_pool3d_backward");
  const OnHost out = result(dx), in(g);
  kernels::avg_pool3d_backward(cpu, shape, out.view(), in.view());
  out.store();
}
void ctc_loss(const View& loss, const View& alpha, const View& log_probs, const View& targets,
              std::span<const std::int64_t> input_lengths, std::span<const std::int64_t> target_lengths, std::int64_t blank) {
  MANTISSA_WARN_ONCE("ctc_loss");
  const OnHost out = result(loss), states = result(alpha), in(log_probs), labels(targets);
  kernels::ctc_loss(cpu, out.view(), states.view(), in.view(), labels.view(), input_lengths, target_lengths, blank);
  out.store();
  states.store();
}
void ctc_loss_backward(const View& dx, const View& g, const View& log_probs, const View& targets, const View& alpha,
                       std::span<const std::int64_t> input_lengths, std::span<const std::int64_t> target_lengths, std::int64_t blank) {
  MANTISSA_WARN_ONCE("ctc_loss_backward");
  const OnHost out = result(dx), gradient(g), in(log_probs), labels(targets), states(alpha);
  kernels::ctc_loss_backward(cpu, out.view(), gradient.view(), in.view(), labels.view(), states.view(), input_lengths, target_lengths, blank);
  out.store();
}

}  // namespace mantissa::cuda_backend
