// Every optimizer, built over given parameters: tests of what must hold for the loss scaler with each of them use this
// list. New optimizers belong here. (LBFGS takes a closure: it has a separate test.)
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "optim/adadelta.h"
#include "optim/adafactor.h"
#include "optim/adagrad.h"
#include "optim/adam.h"
#include "optim/adamax.h"
#include "optim/asgd.h"
#include "optim/lamb.h"
#include "optim/lion.h"
#include "optim/muon.h"
#include "optim/nadam.h"
#include "optim/radam.h"
#include "optim/rmsprop.h"
#include "optim/rprop.h"
#include "optim/sgd.h"

namespace mantissa::test {

struct OptimizerMaker {
  std::string name;
  bool matrices_only = false;
  std::function<std::unique_ptr<optim::Optimizer>(const optim::Parameters&)> make_of;

  // Over the subset of the parameters that the optimizer supports.
  std::unique_ptr<optim::Optimizer> make(const std::vector<Tensor>& parameters) const {
    std::vector<Tensor> own;
    for (const Tensor& p : parameters) {
      if (!matrices_only || p.dim() == 2) own.push_back(p);
    }
    return make_of(own);
  }
};
template <class O, class Options>
OptimizerMaker maker(const char* name, const Options& options, bool matrices_only = false) {
  return {name, matrices_only, [options](const optim::Parameters& p) { return std::make_unique<O>(p, options); }};
}
inline std::vector<OptimizerMaker> all_optimizers() {
  using namespace optim;
  return {
      maker<Sgd>("Sgd", SgdOptions{.lr = 0.05}),
      maker<Sgd>("Sgd with momentum", SgdOptions{.lr = 0.05, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true}),
      maker<Adam>("Adam", AdamOptions{.lr = 0.01}),
      maker<Adam>("Adam with amsgrad",
                  AdamOptions{.lr = 0.01, .weight_decay = 0.01, .amsgrad = true, .maximize = true}),
      maker<AdamW>("AdamW", AdamWOptions{.lr = 0.01}),
      maker<RMSprop>("RMSprop", RMSpropOptions{.lr = 0.01, .momentum = 0.5}),
      maker<Adagrad>("Adagrad", AdagradOptions{}),
      maker<Adadelta>("Adadelta", AdadeltaOptions{}),
      maker<Adamax>("Adamax", AdamaxOptions{}),
      maker<NAdam>("NAdam", NAdamOptions{}),
      maker<RAdam>("RAdam", RAdamOptions{.lr = 0.05}),
      maker<ASGD>("ASGD", ASGDOptions{}),
      maker<Rprop>("Rprop", RpropOptions{}),
      maker<LAMB>("LAMB", LAMBOptions{}),
      maker<Lion>("Lion", LionOptions{}),
      maker<Adafactor>("Adafactor", AdafactorOptions{}),
      maker<Muon>("Muon", MuonOptions{}, true),
  };
}

}  // namespace mantissa::test
