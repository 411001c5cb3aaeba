#include "nn/amp.h"

#include "autograd/node.h"

namespace mantissa::nn {
namespace {

struct Lister final : Fields {
  amp::ModuleList list;

  void module(const std::string& path, const void* object, const void* type) override {
    list.modules.push_back({object, type, path});
  }
  void param(const std::string& path, Param& p) override {
    if (!p.defined()) return;
    // The owner is the innermost module on the path, visited last: elements of an array have no module of their own.
    std::string owner;
    for (auto o = list.modules.rbegin(); o != list.modules.rend(); ++o) {
      if (path.size() <= o->path.size() || !path.starts_with(o->path) || path[o->path.size()] != '.') continue;
      owner = o->path;
      break;
    }
    list.parameters.push_back({p.impl(), owner});
  }
};

}  // namespace

amp::ModuleList module_list(ModuleRef net) {
  Lister lister;
  net.visit(lister);
  return std::move(lister.list);
}

}  // namespace mantissa::nn

namespace mantissa::amp {
namespace {

std::int64_t& bytes_of(std::array<std::int64_t, dtype_count>& all, Dtype d) { return all[static_cast<std::size_t>(d)]; }

}  // namespace

Diagnosis doctor(nn::ModuleRef net, const std::function<Tensor()>& step, const DoctorOptions& options) {
  return diagnose({nn::module_list(net), nn::named_parameters(net), nn::named_buffers(net)}, step, options);
}

MemoryByDtype memory_by_dtype(nn::ModuleRef net) {
  MemoryByDtype m;
  for (const Tensor& p : nn::parameters(net)) {
    bytes_of(m.parameters, p.dtype()) += p.nbytes();
    if (const Tensor g = p.grad(); g.defined()) bytes_of(m.gradients, g.dtype()) += g.nbytes();
    autograd::LeafNode* leaf = autograd::leaf_of(p);
    if (!leaf) continue;
    const std::lock_guard lock(leaf->mutex);
    if (leaf->shadow.defined()) bytes_of(m.shadows, leaf->shadow.dtype()) += leaf->shadow.nbytes();
  }
  for (const Tensor& b : nn::buffers(net)) if (b.defined()) bytes_of(m.buffers, b.dtype()) += b.nbytes();
  return m;
}

std::string MemoryByDtype::table() const {
  std::string text = "dtype  parameters  gradients  shadows  buffers\n";
  for (int d = 0; d < dtype_count; ++d) {
    const auto i = static_cast<std::size_t>(d);
    if (parameters[i] + gradients[i] + shadows[i] + buffers[i] == 0) continue;
    text += concat(mantissa::name_of(static_cast<Dtype>(d)), "  ", parameters[i], "  ", gradients[i], "  ", shadows[i],
                   "  ", buffers[i], "\n");
  }
  return text;
}

}  // namespace mantissa::amp
