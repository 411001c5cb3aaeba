#include "nn/functions.h"

#include <cxxabi.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "autograd/grad_mode.h"
#include "autograd/hooks.h"
#include "autograd/unlisted.h"
#include "core/memory_order.h"
#include "core/module_modes.h"
#include "core/recorded_memory.h"
#include "io/checkpoint.h"
#include "io/torch_file.h"
#include "nn/clone.h"
#include "nn/sequential.h"

namespace mantissa::nn {
namespace {

// All defined tensors of the module. `tensors` lists each tensor once; `aliases` are the other names of tied ones, with
// the name under which they are listed.
struct Listing final : Fields {
  enum Kind : std::uint8_t { is_param, is_buffer };
  struct Item {
    std::string name;
    Tensor tensor;
    Kind kind;
  };
  std::vector<Item> tensors;
  std::unordered_map<std::string, std::string> aliases;

  explicit Listing(ModuleRef m) { m.visit(*this); }
  void param(const std::string& path, Param& p) override {
    add(path, p, is_param);
    if (p.defined()) autograd::note_listed(p);
  }
  void buffer(const std::string& path, Buffer& b) override { add(path, b, is_buffer); }

  NamedTensors named(Kind kind) const {
    NamedTensors list;
    for (const Item& i : tensors) if (i.kind == kind) list.emplace_back(i.name, i.tensor);
    return list;
  }

 private:
  void add(const std::string& path, const Tensor& t, Kind kind) {
    if (!t.defined()) return;
    const auto [it, is_new] = seen_.try_emplace(t.impl(), path);
    if (is_new) tensors.push_back({path, t, kind});
    else aliases[path] = it->second;
  }
  std::unordered_map<const TensorImpl*, std::string> seen_;
};

std::vector<Tensor> without_names(const NamedTensors& named) {
  std::vector<Tensor> list;
  for (const auto& entry : named) list.push_back(entry.second);
  return list;
}

// Replaces the data of the tensor behind a handle; visible to all handles.
void replace_data(const Tensor& handle, const Tensor& with) {
  TensorImpl& t = *handle.impl();
  cuda_backend::outdate_recordings(handle);
  with.storage()->continue_version_of(*t.storage);
  t.storage = with.storage();
  t.data = with.raw_data();
  t.sizes = with.sizes();
  t.strides = with.strides();
  t.dtype = with.dtype();
  t.device = with.device();
  if (!t.node) return;
  auto* leaf = static_cast<autograd::LeafNode*>(t.node.get());
  const std::lock_guard lock(leaf->mutex);
  leaf->set_dtype(with.dtype(), with.device());
  leaf->set_layout(with.layout());
  leaf->set_shadow({}, 0);
  if (!leaf->grad.defined()) return;
  leaf->grad = empty_like(with).copy_(autograd::settled_gradient(*leaf));
  if (leaf->has_hooks()) leaf->hooks().pending = {};
}

void convert(const Tensor& t, Dtype dtype, Device device, Layout layout) {
  if (t.dtype() == dtype && t.device() == device && (t.layout() == layout || lies_in(t, layout))) return;
  const NoGrad no_grad;
  replace_data(t, Tensor::allocate(t.sizes(), dtype, device, layout).copy_(t));
}

// `state` under the names of state_dict(). A file may list a tied parameter under any of its names; duplicates are
// dropped.
NamedTensors without_aliases(const NamedTensors& state, const Listing& own) {
  std::unordered_set<std::string> there;
  for (const auto& [name, t] : state) there.insert(name);
  NamedTensors kept;
  for (const auto& [name, t] : state) {
    const auto alias = own.aliases.find(name);
    if (alias == own.aliases.end()) kept.emplace_back(name, t);
    else if (there.insert(alias->second).second) kept.emplace_back(alias->second, t);
  }
  return kept;
}

// Entries whose names start with the prefix, with it removed.
NamedTensors below(const std::string& prefix, const NamedTensors& state) {
  if (prefix.empty()) return state;
  NamedTensors found;
  for (const auto& [name, t] : state)
    if (name.starts_with(prefix)) found.emplace_back(name.substr(prefix.size()), t);
  check(!found.empty(), "load_state_dict: no name begins with \"", prefix, "\"",
        state.empty() ? "" : concat("; the first is \"", state[0].first, "\""));
  return found;
}
// Suggests a prefix under which the names would match the module's.
std::string advise_prefix(const NamedTensors& expected, const NamedTensors& given) {
  if (expected.empty()) return "";
  const std::string& wanted = expected[0].first;
  if (std::ranges::any_of(given, [&](const auto& entry) { return entry.first == wanted; })) return "";
  for (const auto& [name, t] : given) {
    if (name.ends_with("." + wanted))
      return concat("; did you mean LoadOptions{.prefix = \"", name.substr(0, name.size() - wanted.size()), "\"}?");
  }
  return "";
}

}  // namespace

void tie(Param& param, const Param& with) {
  check(param.defined() && with.defined(), "tie: a parameter is undefined");
  check(param.sizes() == with.sizes(), "tie: shapes ", param.sizes(), " and ", with.sizes(), " differ");
  static_cast<Tensor&>(param) = with;
}

Param clone(const Param& p) {
  if (!p.defined()) return {};
  Param copy(empty_like(p).copy_(p));
  copy.requires_grad_(p.requires_grad());
  return copy;
}
Buffer clone(const Buffer& b) {
  if (!b.defined()) return {};
  return empty_like(b).copy_(b);
}

static std::string readable(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(abi::__cxa_demangle(type.name(), nullptr, nullptr, &status),
                                                    std::free);
  return status == 0 ? name.get() : type.name();
}
void detail::fail_layer(const std::type_info& wanted, const std::type_info& found) {
  fail("Sequential: the layer is a ", readable(found), " and no ", readable(wanted));
}
void detail::fail_clone(const std::type_info& type) {
  fail("clone: the layer ", readable(type),
       " cannot be copied: a module with a constructor or private members needs a clone() const, such as "
       "{ Block copy(width); nn::copy_fields(*this, copy); return copy; }");
}

void detail::repeat_ties(ModuleRef from, ModuleRef to) {
  struct All final : Fields {
    std::vector<Param*> params;
    void param(const std::string&, Param& p) override { params.push_back(&p); }
  } original, copy;
  from.visit(original);
  to.visit(copy);
  std::unordered_map<const TensorImpl*, Param*> first;
  for (std::size_t i = 0; i < original.params.size(); ++i) {
    const Param& p = *original.params[i];
    if (!p.defined()) continue;
    const auto [it, is_new] = first.try_emplace(p.impl(), copy.params[i]);
    if (!is_new) tie(*copy.params[i], *it->second);
  }
}

NamedTensors named_parameters(ModuleRef m) { return Listing(m).named(Listing::is_param); }
NamedTensors named_buffers(ModuleRef m) { return Listing(m).named(Listing::is_buffer); }
std::vector<Tensor> parameters(ModuleRef m) { return without_names(named_parameters(m)); }
std::vector<Tensor> buffers(ModuleRef m) { return without_names(named_buffers(m)); }

std::int64_t count(ModuleRef m) {
  std::int64_t n = 0;
  for (const Tensor& p : parameters(m)) n += p.numel();
  return n;
}

NamedTensors state_dict(ModuleRef m) {
  NamedTensors state;
  for (const auto& item : Listing(m).tensors) state.emplace_back(item.name, item.tensor.detach());
  return state;
}
NamedTensors clone(const NamedTensors& tensors) {
  NamedTensors copies;
  for (const auto& [name, t] : tensors) copies.emplace_back(name, t.defined() ? t.detach().clone() : t);
  return copies;
}

LoadResult load_state_dict(ModuleRef m, const NamedTensors& state, LoadOptions options) {
  const Listing own(m);
  const NamedTensors given = without_aliases(below(options.prefix, state), own);
  std::unordered_map<std::string_view, const Tensor*> by_name;
  for (const auto& [name, t] : given) {
    check(t.defined(), "load_state_dict: \"", name, "\" is an undefined tensor");
    check(by_name.try_emplace(name, &t).second, "load_state_dict: \"", name, "\" is given twice");
  }
  LoadResult result;
  NamedTensors expected, common;  // common: names that exist here, whatever the shape
  for (const auto& item : own.tensors) {
    const auto it = by_name.find(item.name);
    if (it == by_name.end()) {
      result.missing.push_back(item.name);
      if (!options.strict) continue;
    } else {
      common.emplace_back(item.name, *it->second);
      by_name.erase(it);
    }
    expected.emplace_back(item.name, item.tensor);
  }
  for (const auto& entry : given) if (by_name.contains(entry.first)) result.unexpected.push_back(entry.first);
  const std::string mismatch = io::describe_mismatch(expected, options.strict ? given : common);
  check(mismatch.empty() || !given.empty(), "load_state_dict: the state is empty; is it the right area or file?");
  check(mismatch.empty(), "load_state_dict: the state does not fit the module: ", mismatch,
        advise_prefix(expected, given));
  const NoGrad no_grad;
  std::unordered_map<std::string_view, const Tensor*> values;
  for (const auto& [name, t] : common) values[name] = &t;
  for (auto& [name, t] : expected) t.copy_(*values.at(name));
  return result;
}

void save(ModuleRef m, const std::string& path) { io::save_safetensors(path, state_dict(m)); }

LoadResult load(ModuleRef m, const std::string& path, LoadOptions options) {
  const NamedTensors tensors =
      io::is_torch_file(path) ? io::load_torch(path).tensors : io::load_safetensors(path).tensors;
  try {
    return load_state_dict(m, tensors, options);
  } catch (Error& e) {
    e.add_outer_context(path);
    throw;
  }
}

void zero_grad(ModuleRef m) {
  for (Tensor p : parameters(m)) {
    if (p.requires_grad()) p.set_grad({});
  }
}

void requires_grad_(ModuleRef m, bool on) {
  for (Tensor p : parameters(m)) {
    if (p.is_floating()) p.requires_grad_(on);
  }
}

void Mode::set_training(bool on) {
  if (std::exchange(training, on) != on) note_mode_change(this);
}

void detail::set_training(ModuleRef m, bool training) {
  struct Setter final : Fields {
    bool training;
    void mode(Mode& x) override { x.set_training(training); }
  } setter;
  setter.training = training;
  m.visit(setter);
}

void to(ModuleRef m, Device device) {
  for (const auto& [name, t, kind] : Listing(m).tensors) convert(t, t.dtype(), device, t.layout());
}
void to(ModuleRef m, Dtype dtype) {
  check(is_floating(dtype), "nn::to: a module's parameters must be floating, not ", dtype);
  for (const auto& [name, t, kind] : Listing(m).tensors) {
    if (t.is_floating()) convert(t, dtype, t.device(), t.layout());
  }
}
void to(ModuleRef m, Layout layout) {
  for (const auto& [name, t, kind] : Listing(m).tensors) {
    if (t.dim() == 4 || t.dim() == 5) convert(t, t.dtype(), t.device(), layout);
  }
}

std::string summary(ModuleRef m) {
  const Listing all(m);
  std::size_t width = 4;
  std::int64_t parameters = 0, trainable = 0, others = 0, bytes = 0;
  for (const auto& item : all.tensors) {
    width = std::max(width, item.name.size());
    bytes += item.tensor.nbytes();
    if (item.kind == Listing::is_buffer) {
      others += item.tensor.numel();
    } else {
      parameters += item.tensor.numel();
      trainable += item.tensor.requires_grad() ? item.tensor.numel() : 0;
    }
  }
  std::string text = fmt::format("{:<{}}  {:<24} {:>12}\n", "name", width, "tensor", "elements");
  for (const auto& item : all.tensors) {
    text += fmt::format("{:<{}}  {:<24} {:>12}{}\n", item.name, width, describe(item.tensor), item.tensor.numel(),
                        item.kind == Listing::is_buffer ? "  buffer" : item.tensor.requires_grad() ? "" : "  frozen");
  }
  text += fmt::format("parameters {} ({} trainable), buffers {}, {:.2f} MiB\n", parameters, trainable, others,
                      static_cast<double>(bytes) / (1 << 20));
  return text;
}

}  // namespace mantissa::nn
