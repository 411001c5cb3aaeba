// Visits every module of a type inside a net, at any depth: PyTorch's `for m in net.modules(): if isinstance(m, ...)`.
//
//   nn::for_each<nn::BatchNorm2d>(net, [](nn::BatchNorm2d& norm) { nn::eval(norm); });
//   nn::for_each<nn::Conv2d, nn::Linear>(net, [](auto& layer) { nn::init::kaiming_normal_(layer.weight); });
//   nn::for_each<nn::Linear>(net, [&](const std::string& name, nn::Linear& layer) { ... });   // "blocks.0.up"
#pragma once

#include <string>
#include <type_traits>

#include "nn/functions.h"

namespace mantissa::nn {

// Calls f(module) or f(name, module) for each module whose type is exactly one of M (derived types do not match), in
// the order of names, a module before its members; the net itself is named "". f may assign to the module.
template <Module... M, class F> void for_each(ModuleRef net, F f) {
  static_assert(sizeof...(M) > 0, "for_each<...> needs the types of modules to look for");
  struct Visitor final : Fields {
    explicit Visitor(F& function) : f(function) {}
    void module(const std::string& path, const void* object, const void* type) override {
      const auto call_if = [&]<class T>(std::type_identity<T>) {
        if (type != &amp::type_tag<T>) return;
        T& found = *static_cast<T*>(const_cast<void*>(object));
        if constexpr (std::is_invocable_v<F&, const std::string&, T&>) f(path, found);
        else f(found);
      };
      (call_if(std::type_identity<M>()), ...);
    }
    F& f;
  } visitor(f);
  net.visit(visitor);
}

}  // namespace mantissa::nn
