#include "nn/data_parallel.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "autograd/grad_mode.h"
#include "autograd/hooks.h"
#include "autograd/node.h"
#include "autograd/pass_end.h"
#include "core/kernel.h"
#include "core/memory_order.h"
#include "core/ops.h"
#include "core/profile.h"

namespace mantissa {

MANTISSA_KERNEL(copy, const View& y, const View& x)

namespace nn {
namespace {

using distributed::ProcessGroup;
using distributed::ReduceOp;
using distributed::Work;

// Reports, for each rank, the first difference between its net and rank 0's.
void check_same_net(ProcessGroup& group, const NamedTensors& parameters, const NamedTensors& buffers) {
  const auto lines_of = [&] {
    std::string text;
    for (const auto& [name, t] : parameters)
      text += concat(name, " ", t.dtype(), t.sizes(), t.requires_grad() ? "" : " frozen", "\n");
    for (const auto& [name, t] : buffers) text += concat(name, " ", t.dtype(), t.sizes(), " buffer\n");
    return text;
  };
  const std::string mine = lines_of();
  const Tensor length = scalar(static_cast<double>(mine.size()), {.dtype = i64});
  group.broadcast(length);
  const auto bytes = length.item<std::int64_t>();
  const Tensor text = Tensor::allocate({bytes}, u8);
  if (group.is_first()) std::memcpy(text.raw_data(), mine.data(), mine.size());
  group.broadcast(text);
  const std::string first(static_cast<const char*>(text.raw_data()), static_cast<std::size_t>(bytes));

  std::string difference;
  if (mine != first) {
    const auto line_at = [](const std::string& s, std::size_t at) {
      if (at >= s.size()) return std::string("nothing more");
      const std::size_t begin = at == 0 ? 0 : s.rfind('\n', at - 1) + 1;
      return s.substr(begin, s.find('\n', begin) - begin);
    };
    const auto at = static_cast<std::size_t>(std::mismatch(mine.begin(), mine.end(), first.begin(), first.end()).first -
                                             mine.begin());
    difference = concat("rank ", group.rank(), " has ", line_at(mine, at), " where rank 0 has ", line_at(first, at));
  }
  constexpr std::int64_t room = 256;
  const Tensor note = zeros({room}, {.dtype = u8});
  std::memcpy(note.raw_data(), difference.data(), std::min<std::size_t>(difference.size(), room - 1));
  const Tensor notes = group.all_gather(note);
  for (int r = 0; r < group.size(); ++r) {
    const char* said = static_cast<const char*>(notes.raw_data()) + r * room;
    check(*said == '\0', "DataParallel: the nets of the ranks differ: ", said);
  }
}

// Tensors that can be sent together: in this order on all ranks.
using Sort = std::pair<Dtype, DeviceType>;
Sort sort_of(const Tensor& x) { return {x.dtype(), x.device().type}; }

// Broadcasts rank 0's tensors, one call per sort.
void broadcast_all(ProcessGroup& group, const std::vector<Tensor>& tensors) {
  std::map<Sort, std::vector<Tensor>> sorts;
  for (const Tensor& t : tensors) sorts[sort_of(t)].push_back(t);
  for (const auto& [sort, list] : sorts) group.broadcast(list);
}

}  // namespace

class DataParallel::Reducer : public std::enable_shared_from_this<Reducer> {
 public:
  Reducer(ModuleRef net, const DataParallelOptions& o, ProcessGroup& g) : options_(o), group_(g) {
    check(!o.compress || is_half(*o.compress), "DataParallel: gradients are compressed to f16 or bf16, not ",
          o.compress.value_or(f32));
    check(o.bucket_mb > 0 && o.first_bucket_mb > 0, "DataParallel: the size of a bucket must be positive");
    const NamedTensors parameters = named_parameters(net), buffers = named_buffers(net);
    check_same_net(group_, parameters, buffers);
    std::vector<Tensor> all;
    for (const auto& [name, t] : parameters) {
      all.push_back(t);
      (t.requires_grad() ? parameters_ : frozen_).push_back({name, t});
    }
    check(!parameters_.empty(), "DataParallel: the net has no parameter that requires a gradient");
    for (const auto& [name, t] : buffers) buffers_.push_back(t);
    const NoGrad no_grad;
    broadcast_all(group_, all);
    broadcast_all(group_, buffers_);
    make_buckets();
  }

  void attach() {  // not in the constructor, where weak_from_this() is empty
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      on_accumulated(parameters_[i].tensor, [self = weak_from_this(), i](const Tensor&) {
        if (const auto reducer = self.lock()) reducer->ready(i);
      });
      parameters_[i].leaf = autograd::leaf_of(parameters_[i].tensor)->id();
    }
  }

  int no_sync = 0;
  int buckets() const { return static_cast<int>(buckets_.size()); }

 private:
  struct Parameter {
    std::string name;
    Tensor tensor;
    std::size_t bucket = 0;
    std::uint64_t leaf = 0;  // id of the node that has our hook; 0: frozen
    bool ready = false;      // its gradient of this pass is complete
  };
  struct Bucket {
    std::vector<std::size_t> parameters = {};
    double bytes = 0;
    std::size_t missing = 0;
    std::vector<Tensor> sent = {};  // per parameter: its gradient, or a stand-in
    Work work = {};
  };

  void make_buckets() {
    std::map<Sort, Bucket> open;
    const auto close = [&](Bucket& b) {
      for (const std::size_t i : b.parameters) parameters_[i].bucket = buckets_.size();
      buckets_.push_back(std::exchange(b, {}));
    };
    for (std::size_t i = parameters_.size(); i-- > 0;) {
      Bucket& b = open[sort_of(parameters_[i].tensor)];
      b.parameters.push_back(i);
      b.bytes += static_cast<double>(parameters_[i].tensor.nbytes());
      if (b.bytes >= (buckets_.empty() ? options_.first_bucket_mb : options_.bucket_mb) * (1 << 20)) close(b);
    }
    for (auto& [sort, b] : open)
      if (!b.parameters.empty()) close(b);
  }

  void begin(std::uint64_t pass) {
    check(launched_ == 0,
          "DataParallel: an earlier backward() ended with an error when some gradients were already "
          "reduced, so the ranks no longer agree; begin again from a checkpoint");
    pass_ = pass;
    for (Parameter& p : parameters_) p.ready = false;
    for (Bucket& b : buckets_) b.missing = b.parameters.size();
    autograd::at_end_of_backward([this] { finish(); });
  }

  void ready(std::size_t i) {
    if (no_sync > 0) return;
    if (const std::uint64_t pass = autograd::backward_number(); pass != pass_) begin(pass);
    Parameter& p = parameters_[i];
    if (std::exchange(p.ready, true)) return;
    --buckets_[p.bucket].missing;
    if (options_.overlap) launch_complete();
  }

  void launch_complete() {
    while (launched_ < buckets_.size() && buckets_[launched_].missing == 0) launch(buckets_[launched_++]);
  }

  void launch(Bucket& b) {
    const NoGrad no_grad;
    // f16 and bf16 parameters with masters have f32 gradients, except those unfrozen since the last step.
    Dtype dtype = parameters_[b.parameters[0]].tensor.dtype();
    for (const std::size_t i : b.parameters) {
      const auto* leaf = autograd::leaf_of(parameters_[i].tensor);
      if (leaf && size_of(leaf->dtype()) > size_of(dtype)) dtype = leaf->dtype();
    }
    const bool direct = group_.reaches(parameters_[b.parameters[0]].tensor.device());
    for (const std::size_t i : b.parameters) {
      const Tensor& p = parameters_[i].tensor;
      Tensor g = p.grad();
      if (!g.defined()) g = zeros(p.sizes(), {.dtype = dtype, .device = p.device()});
      g = dense(cast(g.detach(), dtype), p.layout());
      if (options_.compress && size_of(g.dtype()) > size_of(*options_.compress)) g = cast(g, *options_.compress);
      b.sent.push_back(as_it_lies(direct ? g : g.to(cpu)));
    }
    b.work = group_.start_all_reduce(b.sent, ReduceOp::mean);
  }

  void finish() {
    check_thawed();
    std::vector<std::size_t> unused;
    for (std::size_t i = 0; i < parameters_.size(); ++i)
      if (!parameters_[i].ready) unused.push_back(i);
    if (!unused.empty() && !options_.find_unused) fail_unused(unused);
    for (Bucket& b : buckets_) b.missing = 0;
    launch_complete();
    Tensor used;
    if (options_.find_unused) {
      used = ones({static_cast<std::int64_t>(parameters_.size())}, {.dtype = u8});
      for (const std::size_t i : unused) used.data<std::uint8_t>()[i] = 0;
      group_.all_reduce(used, ReduceOp::max);
    }
    const ProfileRange range(ProfileKind::library, "DataParallel: wait for gradients");
    for (Bucket& b : buckets_) {
      b.work.wait();
      for (std::size_t k = 0; k < b.parameters.size(); ++k) put_back(b.parameters[k], b.sent[k], used);
      b.sent.clear();
      b.work = {};
    }
    launched_ = 0;
    if (options_.broadcast_buffers) broadcast_all(group_, buffers_);
  }

  void put_back(std::size_t i, const Tensor& sent, const Tensor& used) {
    const Tensor& p = parameters_[i].tensor;
    const Tensor g = p.grad(), reduced = in_order_of_dims(sent, p.layout());
    if (!g.defined()) {
      const auto* leaf = autograd::leaf_of(p);
      if (leaf && used.data<std::uint8_t>()[i]) Tensor(p).set_grad(cast(reduced.to(p.device()), leaf->dtype()));
    } else if (g.raw_data() != reduced.raw_data()) {
      // direct kernel call: must not count as a modification, so the gradient keeps its loss's scale (autograd/hooks.h)
      const Tensor there = reduced.to(g.device());
      kernels::copy(g.device(), g.view(), there.view());
    }
  }

  // A parameter that starts to require a gradient has a new node without our hook: its gradient would not be reduced.
  void check_thawed() {
    for (const auto* list : {&parameters_, &frozen_}) {
      for (const Parameter& p : *list) {
        const auto* leaf = autograd::leaf_of(p.tensor);
        if (!leaf || leaf->id() == p.leaf) continue;
        fail_everywhere(concat("DataParallel: ", p.name, " was frozen when DataParallel was made, or since, and now ",
                               "requires a gradient, which is not reduced; after requires_grad_() destroy this "
                               "DataParallel and make a new one"));
      }
    }
  }

  [[noreturn]] void fail_everywhere(const std::string& text) {
    group_.give_up(text);
    fail(text);
  }
  [[noreturn]] void fail_unused(const std::vector<std::size_t>& unused) {
    std::string names;
    for (std::size_t k = 0; k < std::min<std::size_t>(unused.size(), 4); ++k)
      names += (k > 0 ? ", " : "") + parameters_[unused[k]].name;
    if (unused.size() > 4) names += concat(" and ", static_cast<std::int64_t>(unused.size() - 4), " more");
    fail_everywhere(concat("DataParallel: on rank ", group_.rank(), " backward() reached no gradient of ", names,
                           "; with DataParallelOptions{.find_unused = true} they count as zeros"));
  }

  const DataParallelOptions options_;
  ProcessGroup& group_;
  std::vector<Parameter> parameters_, frozen_;
  std::vector<Tensor> buffers_;
  std::vector<Bucket> buckets_;  // in order of reduction
  std::uint64_t pass_ = 0;       // the backward pass that `ready` and `missing` refer to
  std::size_t launched_ = 0;
};

DataParallel::DataParallel(ModuleRef net, const DataParallelOptions& options, ProcessGroup& group) {
  if (group.size() == 1) return;
  reducer_ = std::make_shared<Reducer>(net, options, group);
  reducer_->attach();
}
DataParallel::~DataParallel() = default;

DataParallel::NoSync DataParallel::no_sync() {
  static thread_local int nobody = 0;
  return NoSync(reducer_ ? reducer_->no_sync : nobody);
}
int DataParallel::buckets() const { return reducer_ ? reducer_->buckets() : 0; }

}  // namespace nn
}  // namespace mantissa
