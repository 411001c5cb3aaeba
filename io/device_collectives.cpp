#include "io/device_collectives.h"

#include <algorithm>
#include <set>
#include <vector>

#include "core/kernel.h"
#include "core/ops.h"
#include "core/operators.h"
#include "io/segment.h"

namespace mantissa {

MANTISSA_KERNEL(copy, const View& y, const View& x)

namespace distributed {
namespace {

using Part = DeviceLink::Part;
using Parts = std::vector<Part>;

constexpr std::int64_t short_bytes = 1 << 17;  // broadcast to all ranks whole

// Gradients keep what their loss was scaled with: unlike copy_, this does not count as a change (autograd/hooks.h).
void put(const Tensor& to, const Tensor& from) { kernels::copy(to.device(), to.view(), from.view()); }

Tensor flat(const Tensor& x) { return reshape(x, {x.numel()}); }
// All elements in one row: memory of the only tensor, or a copy.
Tensor line_of(std::span<const Tensor> xs) {
  if (xs.size() == 1) return flat(xs[0]);
  std::vector<Tensor> rows;
  for (const Tensor& x : xs) rows.push_back(flat(x));
  return cat(rows, 0);
}
void put_back(const Tensor& line, std::span<const Tensor> xs) {
  if (xs.size() == 1) return;
  std::int64_t at = 0;
  for (const Tensor& x : xs) {
    if (x.numel() > 0) put(flat(x), slice(line, 0, at, at + x.numel()));
    at += x.numel();
  }
}

Part part_of(const Tensor& x, int rank) { return {x.raw_data(), static_cast<std::size_t>(x.nbytes()), rank}; }
Part part_of(const Tensor& line, const Segment& s, int rank) {
  const auto size = static_cast<std::int64_t>(size_of(line.dtype()));
  return {static_cast<char*>(line.raw_data()) + s.begin * size, static_cast<std::size_t>(s.size() * size), rank};
}
// Rank r's part of x [size, ...], to or from `rank`.
Part part_at(const Tensor& x, int r, int rank) {
  const std::int64_t bytes = x.nbytes() / x.size(0);
  return {static_cast<char*>(x.raw_data()) + r * bytes, static_cast<std::size_t>(bytes), rank};
}

Tensor combined(const Tensor& a, const Tensor& b, ReduceOp op) {
  if (op == ReduceOp::max) return maximum(a, b);
  if (op == ReduceOp::min) return minimum(a, b);
  return a + b;
}

// An offer: three texts of this many bytes. Which GPU it is, the version of NCCL, and the first rank's name.
constexpr std::int64_t room = 128;
static_assert(room >= static_cast<std::int64_t>(cuda_backend::link_name_bytes));
char* text_at(const Tensor& offers, int i) { return static_cast<char*>(offers.raw_data()) + i * room; }

}  // namespace

Tensor link_offer(Device gpu, bool is_first) {
  const Tensor offer = zeros({3, room}, {.dtype = u8});
  const auto put_text = [&](int i, const std::string& text) { std::ranges::copy(text, text_at(offer, i)); };
  const std::string version = cuda_backend::nccl_version();
  if (version.empty()) return offer;
  put_text(0, cuda_backend::prepare(&cuda_backend::identity_of, gpu)(gpu).substr(0, room - 1));
  put_text(1, version.substr(0, room - 1));
  if (is_first) put_text(2, cuda_backend::new_link_name());
  return offer;
}
std::optional<std::string> link_name_of(const Tensor& offers) {
  const std::int64_t ranks = offers.size(0);
  std::set<std::string> gpus, versions;
  for (int r = 0; r < ranks; ++r) gpus.insert(text_at(offers, 3 * r)), versions.insert(text_at(offers, 3 * r + 1));
  const bool apart = static_cast<std::int64_t>(gpus.size()) == ranks && !gpus.contains("");
  if (!apart || versions.size() > 1) return {};
  return std::string(text_at(offers, 2), cuda_backend::link_name_bytes);
}

Tensor DeviceCollectives::reduce_own_segment(const Tensor& line, ReduceOp op) {
  const Segment own = segment_of(line.numel(), rank_, size_);
  const Tensor others = Tensor::allocate({size_, own.size()}, line.dtype(), line.device());
  Parts sends, receives;
  each_other([&](int r) {
    sends.push_back(part_of(line, segment_of(line.numel(), r, size_), r));
    receives.push_back(part_at(others, r, r));
  });
  link_.exchange(sends, receives);
  const Dtype wide = is_half(line.dtype()) ? f32 : line.dtype();
  Tensor sum;
  for (int r = 0; r < size_ && own.size() > 0; ++r) {
    const Tensor next = cast(r == rank_ ? slice(line, 0, own.begin, own.end) : select(others, 0, r), wide);
    sum = r == 0 ? next : combined(sum, next, op);
  }
  if (sum.defined() && op == ReduceOp::mean) sum = sum / static_cast<double>(size_);
  return sum.defined() ? cast(sum, line.dtype()) : slice(line, 0, own.begin, own.end);
}

// Every rank has its own segment, and gets those of the others; rank all_but has them all.
void DeviceCollectives::share_segments(const Tensor& line, int all_but) {
  Parts sends, receives;
  each_other([&](int r) {
    if (r != all_but) sends.push_back(part_of(line, segment_of(line.numel(), rank_, size_), r));
    if (rank_ != all_but) receives.push_back(part_of(line, segment_of(line.numel(), r, size_), r));
  });
  link_.exchange(sends, receives);
}

void DeviceCollectives::broadcast(std::span<const Tensor> xs, int root) {
  const Tensor line = line_of(xs);
  const bool whole = size_ == 2 || line.nbytes() <= short_bytes;
  Parts sends, receives;
  const auto first = [&](int r) {  // what rank r gets from the root
    return whole ? Segment{0, line.numel()} : segment_of(line.numel(), r, size_);
  };
  if (rank_ == root) each_other([&](int r) { sends.push_back(part_of(line, first(r), r)); });
  else receives.push_back(part_of(line, first(rank_), root));
  link_.exchange(sends, receives);
  if (!whole) share_segments(line, root);
  put_back(line, xs);
}

void DeviceCollectives::all_reduce(std::span<const Tensor> xs, ReduceOp op) {
  const Tensor line = line_of(xs);
  const Segment own = segment_of(line.numel(), rank_, size_);
  const Tensor sum = reduce_own_segment(line, op);
  if (own.size() > 0) put(slice(line, 0, own.begin, own.end), sum);
  share_segments(line);
  put_back(line, xs);
}

void DeviceCollectives::reduce_scatter(const Tensor& out, const Tensor& x, ReduceOp op) {
  const Tensor sum = reduce_own_segment(flat(x), op);
  if (out.numel() > 0) put(flat(out), sum);
}

void DeviceCollectives::all_gather(const Tensor& out, const Tensor& x) {
  Parts sends, receives;
  each_other([&](int r) {
    sends.push_back(part_of(x, r));
    receives.push_back(part_at(out, r, r));
  });
  link_.exchange(sends, receives);
  if (x.numel() > 0) put(select(out, 0, rank_), x);
}

void DeviceCollectives::gather(const Tensor& out, const Tensor& x, int root) {
  Parts sends, receives;
  if (rank_ != root) sends.push_back(part_of(x, root));
  else each_other([&](int r) { receives.push_back(part_at(out, r, r)); });
  link_.exchange(sends, receives);
  if (rank_ == root && x.numel() > 0) put(select(out, 0, root), x);
}

void DeviceCollectives::scatter(const Tensor& x, const Tensor& parts, int root) {
  Parts sends, receives;
  if (rank_ != root) receives.push_back(part_of(x, root));
  else each_other([&](int r) { sends.push_back(part_at(parts, r, r)); });
  link_.exchange(sends, receives);
  if (rank_ == root && x.numel() > 0) put(x, select(parts, 0, root));
}

void DeviceCollectives::all_to_all(const Tensor& out, const Tensor& x) {
  Parts sends, receives;
  each_other([&](int r) {
    sends.push_back(part_at(x, r, r));
    receives.push_back(part_at(out, r, r));
  });
  link_.exchange(sends, receives);
  if (x.numel() > 0) put(select(out, 0, rank_), select(x, 0, rank_));
}

void DeviceCollectives::exchange(std::span<const ProcessGroup::Message> sends,
                                 std::span<const ProcessGroup::Message> receives) {
  Parts out, in;
  for (const auto& m : sends) out.push_back(part_of(m.x, m.rank));
  for (const auto& m : receives) in.push_back(part_of(m.x, m.rank));
  link_.exchange(out, in);
}

}  // namespace distributed
}  // namespace mantissa
