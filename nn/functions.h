// Functions over a whole module: parameters, state_dict, save, load, train, eval, to, ... They traverse the members
// listed with MANTISSA_FIELDS (nn/fields.h). Names are PyTorch's ("conv1.weight"). Tied parameters (nn::tie) are
// visited once, under their first name.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/named_tensors.h"
#include "nn/fields.h"

namespace mantissa::nn {

// A module, or a container of modules or parameters: vector, array, unique_ptr or optional.
template <class T>
concept Modules = Module<T> || (detail::is_field<T>() && !std::is_base_of_v<Tensor, T> && !std::is_same_v<T, Mode>);

// The parameter type of the functions below: a reference to any module, converted implicitly. Parameters in a vector of
// layers are named "0.weight", "1.weight", ...
class ModuleRef {
 public:
  template <Modules M> ModuleRef(M& m)
      : object_(&m), fields_([](void* o, Fields& f) { f.root(*static_cast<M*>(o)); }) {
    if constexpr (Module<M>) check_module<M>();
  }
  // A constant module can be read: its tensors are handles.
  template <Modules M> ModuleRef(const M& m) : ModuleRef(const_cast<M&>(m)) {}
  void visit(Fields& f) const { fields_(object_, f); }

 private:
  void* object_;
  void (*fields_)(void*, Fields&);
};

std::vector<Tensor> parameters(ModuleRef module);
NamedTensors named_parameters(ModuleRef module);
NamedTensors named_buffers(ModuleRef module);
std::vector<Tensor> buffers(ModuleRef module);
std::int64_t count(ModuleRef module);  // number of elements in all parameters

// Parameters and buffers, detached, sharing storage with the module.
NamedTensors state_dict(ModuleRef module);
// Copies of all tensors: auto best = nn::clone(nn::state_dict(net)); ...; nn::load_state_dict(net, best);
NamedTensors clone(const NamedTensors& tensors);
struct LoadOptions {
  bool strict = true;  // missing and unexpected names are errors; wrong shapes always are
  // Reads only names with this prefix and strips it: "module." for files of DistributedDataParallel.
  std::string prefix = "";
};
struct LoadResult {
  std::vector<std::string> missing, unexpected;
};
// Copies values in, converting dtypes. Everything is checked before anything is modified.
LoadResult load_state_dict(ModuleRef module, const NamedTensors& state, LoadOptions options = {});

// safetensors files, readable by PyTorch and others (io/safetensors.h). load() also reads torch.save files
// (io/torch_file.h).
void save(ModuleRef module, const std::string& path);
LoadResult load(ModuleRef module, const std::string& path, LoadOptions options = {});

void zero_grad(ModuleRef module);  // drops all gradients
// Whether the parameters get gradients: false freezes the module. Parameters of integers never do.
void requires_grad_(ModuleRef module, bool on = true);

namespace detail {
void set_training(ModuleRef module, bool training);
}
// Sets training mode: dropout is active, and batch norms use batch statistics. Returns the module.
template <Modules M> M& train(M& module, bool training = true) {
  detail::set_training(module, training);
  return module;
}
template <Modules M> M& eval(M& module) { return train(module, false); }

// Moves the module, or converts its floating tensors, in place. Handles stay valid: an existing optimizer keeps
// updating the same parameters.
void to(ModuleRef module, Device device);
void to(ModuleRef module, Dtype dtype);
// Stores its tensors of 4 and 5 dimensions, the weights of convolutions, in this order, in place as above, as PyTorch's
// net.to(memory_format=torch.channels_last). Worth it before a convolutional net trains in f16 or bf16 on a GPU, whose
// convolutions are channels-last: no pass then converts a weight or its gradient. Files and results stay the same; a
// weight's data<T>() is in that order.
void to(ModuleRef module, Layout layout);

// A table of names, shapes and counts, with totals.
std::string summary(ModuleRef module);

}  // namespace mantissa::nn
