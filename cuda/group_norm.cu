// Group norm: x [N, C, ...] normalized over a group's channels and all dimensions after them, then scaled and shifted
// per channel. A group of a sample is a row (cuda/rows.cuh) of `each` channels with `inner` elements; a slot of the row
// is within one channel, and so its elements are neighbours. Channels-last images are copied into rows and back.
//
// The gradient reads g and x once if rows fit into registers: each slot leaves its sums in shared memory; from these
// come the channels' sums, and from those the row's sums and one sample's gradients of weight and bias. A second kernel
// sums over the samples.
#include "core/norm.h"
#include "cuda/elementwise.cuh"
#include "cuda/norm.cuh"

namespace mantissa::cuda_backend {
namespace {

struct Groups {
  std::int64_t samples, channels, count, rows;
  int inner, each;
  Divider by_inner;

  Groups(const View& x, const View& mean)
      : samples(x.sizes[0]), channels(x.sizes[1]), count(mean.sizes[1]), rows(samples * count) {
    const std::int64_t row = x.numel() / rows;
    check_row(row);
    each = static_cast<int>(channels / count);
    inner = static_cast<int>(row / each);
    by_inner = Divider(inner);
  }
  __host__ __device__ int row() const { return each * inner; }
  __device__ std::int64_t first_channel(std::int64_t r) const { return r % count * each; }
  __device__ int channel_of(int j) const {  // within the group
    return static_cast<int>(by_inner.divide(static_cast<unsigned>(j)));
  }
  // Packs (never for f64 rows) only if none spans two channels.
  RowPlan plan(std::initializer_list<View> operands, Dtype compute) const {
    return plan_rows(row(), operands, inner % pack == 0 ? compute : f64);
  }
};
// Weight or bias in the compute type: the original, or a copy. (Branching on their dtypes in every slot would make the
// compiler generate the kernel for each combination of dtypes.)
class WideParameter {
 public:
  WideParameter(const View& v, Dtype compute) : view(v) {
    if (!v || (v.dtype == compute && v.is_contiguous())) return;
    copy_ = Tensor::allocate(v.sizes, compute, v.device);
    view = copy_.view();
    copy(view, v);
  }
  View view;

 private:
  Tensor copy_;
};

__device__ inline void wait_for_row() {
  if (blockDim.x == 32) __syncwarp();
  else __syncthreads();
}

template <class C, int width, int held>
__global__ void __launch_bounds__(most_row_threads)
    group_norm_rows(Groups groups, RowOperand y, C* means, C* inv_stds, RowOperand x, const C* weight, const C* bias,
                    C eps) {
  wait_for_previous_kernel();
  __shared__ C scratch[96];
  const std::int64_t at = this_row();
  if (at >= groups.rows) return;
  Row<C, width, held, 1> row({x}, at, groups.row());
  const RowStatistics<C> s = statistics_of(row, true, eps, scratch);
  if (threadIdx.x == 0) means[at] = s.mean, inv_stds[at] = s.inv_std;
  const std::int64_t first = groups.first_channel(at);
  row.each([&](const Quads& j, const C(&v)[1][width]) {
    const std::int64_t c = first + groups.channel_of(static_cast<int>(j.first));
    const C scale = weight ? s.inv_std * weight[c] : s.inv_std, shift = bias ? bias[c] : C(0);
    C out[width];
#pragma unroll
    for (int k = 0; k < width; ++k) out[k] = (v[0][k] - s.mean) * scale + shift;
    store_slot(y, row.start + j, out);
  });
}

// With u = g * weight: dx = inv_std * (u - mean(u) - hat * mean(u * hat)), hat the normalized x.
// partial[sample][2][channels]: sums over the sample of g * hat and of g.
template <class C, int width, int held>
__global__ void __launch_bounds__(most_row_threads)
    group_norm_backward_rows(Groups groups, RowOperand dx, C* partial, RowOperand g, RowOperand x, const C* weight,
                             const C* means, const C* inv_stds) {
  wait_for_previous_kernel();
  __shared__ C scratch[64];
  const std::int64_t at = this_row();
  if (at >= groups.rows) return;
  const int n = groups.row(), inner = groups.inner, each = groups.each;
  const int threads = static_cast<int>(blockDim.x), thread = static_cast<int>(threadIdx.x);
  const int warps = threads / 32, warp = thread / 32, lane = thread % 32;
  const std::int64_t first = groups.first_channel(at);
  Row<C, width, held, 2> row({g, x}, at, n);
  const C mean = means[at], inv_std = inv_stds[at];
  const auto add = [&](C(&sums)[2], const C(&v)[2][width]) {
#pragma unroll
    for (int k = 0; k < width; ++k) {
      sums[0] += v[0][k] * ((v[1][k] - mean) * inv_std);
      sums[1] += v[0][k];
    }
  };
  C* of_channels = partial + at / groups.count * 2 * groups.channels + first;
  const auto store_channel = [&](int c, const C(&sums)[2]) {
    of_channels[c] = sums[0], of_channels[groups.channels + c] = sums[1];
  };
  if constexpr (held > 0) {
    const int slots = n / width, slots_each = inner / width;
    MANTISSA_SHARED(C, shared);
    C* slot_sums = shared + static_cast<int>(threadIdx.y) * 2 * slots;
    row.each([&](const Quads& j, const C(&v)[2][width]) {
      C sums[2] = {};
      add(sums, v);
      slot_sums[j.first / width] = sums[0], slot_sums[slots + j.first / width] = sums[1];
    });
    wait_for_row();
    // One warp per channel with many slots, otherwise one thread per channel.
    const bool by_warp = slots_each >= 32;
    const int step = by_warp ? 32 : 1;
#pragma unroll 1
    for (int c = by_warp ? warp : thread; c < each; c += by_warp ? warps : threads) {
      C sums[2] = {};
#pragma unroll 1
      for (int s = c * slots_each + (by_warp ? lane : 0); s < (c + 1) * slots_each; s += step) {
        sums[0] += slot_sums[s], sums[1] += slot_sums[slots + s];
      }
      if (by_warp) sums[0] = fold_warp<Sum>(sums[0]), sums[1] = fold_warp<Sum>(sums[1]);
      if (!by_warp || lane == 0) store_channel(c, sums);
    }
  } else {
    // The block processes one channel at a time or, if there are enough channels, each warp does.
    const bool by_warp = each >= warps;
    const int team = by_warp ? 32 : threads, member = by_warp ? lane : thread;
#pragma unroll 1
    for (int c = by_warp ? warp : 0; c < each; c += by_warp ? warps : 1) {
      C sums[2] = {}, v[2][width];
#pragma unroll 1
      for (int j = member * width; j < inner; j += team * width) {
        row.load(v, c * inner + j);
        add(sums, v);
      }
      sums[0] = fold_warp<Sum>(sums[0]), sums[1] = fold_warp<Sum>(sums[1]);
      if (!by_warp) join_warps(sums, scratch);
      if (member == 0) store_channel(c, sums);
    }
  }
  wait_for_row();
  C of_u[2] = {};  // sums of u * hat and of u
#pragma unroll 1
  for (int c = thread; c < each; c += threads) {
    const C w = weight ? weight[first + c] : C(1);
    of_u[0] += w * of_channels[c], of_u[1] += w * of_channels[groups.channels + c];
  }
  sum_over_row(of_u, scratch);
  const C mean_u_hat = of_u[0] / C(n), mean_u = of_u[1] / C(n);
  row.each([&](const Quads& j, const C(&v)[2][width]) {
    const C w = weight ? weight[first + groups.channel_of(static_cast<int>(j.first))] : C(1);
    C out[width];
#pragma unroll
    for (int k = 0; k < width; ++k) out[k] = inv_std * (v[0][k] * w - mean_u - (v[1][k] - mean) * inv_std * mean_u_hat);
    store_slot(dx, row.start + j, out);
  });
}

}  // namespace

// mean and inv_std are [N, groups], in the compute type.
void group_norm(const View& y, const View& mean, const View& inv_std, const View& x, const View& weight,
                const View& bias, double eps) {
  if (x.numel() == 0) return;
  const Groups groups(x, mean);
  const DenseInput in(x);
  const DenseOutput out(y);
  const Dtype compute = compute_dtype(x.dtype);
  const WideParameter w(weight, compute), b(bias, compute);
  const RowPlan plan = groups.plan({in.view, out.view}, compute);
  visit_rows(compute, plan, [&]<class C, int width, int held>() {
    launch("group_norm", group_norm_rows<C, width, held>, grid_of(plan, groups.rows), groups, operand(out.view),
           mean.as<C>(), inv_std.as<C>(), operand(in.view), w.view.as<C>(), b.view.as<C>(), eps);
  });
  out.finish();
}

void group_norm_backward(const View& dx, const View& dweight, const View& dbias, const View& g, const View& x,
                         const View& weight, const View& mean, const View& inv_std) {
  const std::int64_t channels = dweight.numel(), samples = x.numel() > 0 ? x.sizes[0] : 0;
  const DenseOutput dw(dweight), db(dbias);
  visit_compute(x.dtype, [&]<class C>() {
    const Tensor scratch = Tensor::allocate({samples, 2 * channels}, dtype_of<C>, x.device);
    C* partial = static_cast<C*>(scratch.raw_data());
    if (samples > 0) {
      const Groups groups(x, mean);
      const DenseInput in(x), grad(g), means(mean), inv_stds(inv_std);
      const WideParameter w(weight, dtype_of<C>);
      const DenseOutput out(dx);
      const RowPlan plan = groups.plan({in.view, grad.view, out.view}, compute_dtype(x.dtype));
      visit_rows(compute_dtype(x.dtype), plan, [&]<class T, int width, int held>() {
        if constexpr (std::is_same_v<T, C>) {
          Grid grid = grid_of(plan, groups.rows);
          if (held > 0) grid.shared = plan.threads.y * 2 * sizeof(C) * static_cast<std::size_t>(groups.row() / width);
          launch("group_norm_backward", group_norm_backward_rows<C, width, held>, grid, groups, operand(out.view),
                 partial, operand(grad.view), operand(in.view), w.view.template as<C>(), means.view.template as<C>(),
                 inv_stds.view.template as<C>());
        }
      });
      out.finish();
    }
    launch_sums(dw.view, db.view, partial, channels, 2 * channels, samples);
  });
  dw.finish();
  db.finish();
}

}  // namespace mantissa::cuda_backend
