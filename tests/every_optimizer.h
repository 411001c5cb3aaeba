// Every optimizer that needs no closure, in the configurations of tests/golden/optimizers.py, for tests that cover all
// of them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

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

using Make = std::function<std::unique_ptr<optim::Optimizer>(const std::vector<Tensor>&, const optim::MemoryOptions&)>;
template <class O, class Options> Make maker(const Options& options) {
  return [options](const std::vector<Tensor>& p, const optim::MemoryOptions& memory) {
    return std::make_unique<O>(optim::Parameters(p), options, memory);
  };
}
inline const std::map<std::string, Make>& optimizers() {
  using namespace optim;
  static const std::map<std::string, Make> all{
      {"sgd", maker<SGD>(SGDOptions{.lr = 0.1})},
      {"sgd_weight_decay", maker<SGD>(SGDOptions{.lr = 0.1, .weight_decay = 0.3})},
      {"sgd_momentum", maker<SGD>(SGDOptions{.lr = 0.1, .momentum = 0.9, .dampening = 0.4, .weight_decay = 0.2})},
      {"sgd_nesterov", maker<SGD>(SGDOptions{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.2, .nesterov = true})},
      {"sgd_maximize", maker<SGD>(SGDOptions{.lr = 0.1, .momentum = 0.5, .weight_decay = 0.2, .maximize = true})},
      {"adam", maker<Adam>(AdamOptions{})},
      {"adam_weight_decay",
       maker<Adam>(AdamOptions{.lr = 0.1, .betas = {0.8, 0.95}, .eps = 1e-3, .weight_decay = 0.3})},
      {"adam_amsgrad", maker<Adam>(AdamOptions{.lr = 0.1, .betas = {0.5, 0.6}, .amsgrad = true})},
      {"adam_maximize", maker<Adam>(AdamOptions{.lr = 0.1, .weight_decay = 0.3, .maximize = true})},
      {"adam_decoupled", maker<Adam>(AdamOptions{.lr = 0.1, .weight_decay = 0.3, .decoupled_weight_decay = true})},
      {"adamw", maker<AdamW>(AdamWOptions{.lr = 0.1})},
      {"adamw_amsgrad", maker<AdamW>(AdamWOptions{
                            .lr = 0.1, .betas = {0.5, 0.6}, .weight_decay = 0.5, .amsgrad = true, .maximize = true})},
      {"rmsprop", maker<RMSprop>(RMSpropOptions{})},
      {"rmsprop_momentum",
       maker<RMSprop>(RMSpropOptions{.lr = 0.05, .alpha = 0.9, .eps = 1e-3, .weight_decay = 0.1, .momentum = 0.8})},
      {"rmsprop_centered",
       maker<RMSprop>(RMSpropOptions{.lr = 0.05, .alpha = 0.9, .eps = 1e-3, .centered = true, .maximize = true})},
      {"rmsprop_all",
       maker<RMSprop>(RMSpropOptions{
           .lr = 0.05, .alpha = 0.9, .eps = 1e-3, .weight_decay = 0.1, .momentum = 0.8, .centered = true})},
      {"adagrad", maker<Adagrad>(AdagradOptions{})},
      {"adagrad_all", maker<Adagrad>(AdagradOptions{.lr = 0.3,
                                                    .lr_decay = 0.1,
                                                    .weight_decay = 0.2,
                                                    .initial_accumulator_value = 0.5,
                                                    .eps = 1e-3,
                                                    .maximize = true})},
      {"adadelta", maker<Adadelta>(AdadeltaOptions{})},
      {"adadelta_all",
       maker<Adadelta>(AdadeltaOptions{.lr = 0.7, .rho = 0.8, .eps = 1e-3, .weight_decay = 0.2, .maximize = true})},
      {"adamax", maker<Adamax>(AdamaxOptions{})},
      {"adamax_all", maker<Adamax>(AdamaxOptions{
                         .lr = 0.1, .betas = {0.7, 0.9}, .eps = 1e-2, .weight_decay = 0.2, .maximize = true})},
      {"nadam", maker<NAdam>(NAdamOptions{})},
      {"nadam_all",
       maker<NAdam>(NAdamOptions{
           .lr = 0.1, .betas = {0.7, 0.9}, .weight_decay = 0.2, .momentum_decay = 0.05, .maximize = true})},
      {"nadam_decoupled", maker<NAdam>(NAdamOptions{.lr = 0.1, .weight_decay = 0.2, .decoupled_weight_decay = true})},
      {"radam", maker<RAdam>(RAdamOptions{.lr = 0.05})},
      {"radam_all",
       maker<RAdam>(RAdamOptions{.lr = 0.1, .betas = {0.7, 0.9}, .eps = 1e-3, .weight_decay = 0.2, .maximize = true})},
      {"radam_decoupled", maker<RAdam>(RAdamOptions{.lr = 0.1, .weight_decay = 0.2, .decoupled_weight_decay = true})},
      {"lion", maker<Lion>(LionOptions{.lr = 0.01})},
      {"lion_weight_decay", maker<Lion>(LionOptions{.lr = 0.05, .betas = {0.7, 0.9}, .weight_decay = 0.3})},
      {"lamb", maker<LAMB>(LAMBOptions{.lr = 0.02})},
      {"lamb_uncorrected",
       maker<LAMB>(
           LAMBOptions{.lr = 0.05, .betas = {0.7, 0.9}, .eps = 1e-3, .weight_decay = 0.3, .bias_correction = false})},
      {"asgd", maker<ASGD>(ASGDOptions{})},
      {"asgd_all", maker<ASGD>(ASGDOptions{
                       .lr = 0.1, .lambd = 0.05, .alpha = 0.5, .t0 = 4, .weight_decay = 0.2, .maximize = true})},
      {"rprop", maker<Rprop>(RpropOptions{})},
      {"rprop_all",
       maker<Rprop>(RpropOptions{.lr = 0.05, .etas = {0.4, 1.5}, .step_sizes = {0.02, 0.1}, .maximize = true})},
      {"adafactor", maker<Adafactor>(AdafactorOptions{})},
      {"adafactor_all", maker<Adafactor>(AdafactorOptions{.lr = 0.3,
                                                          .beta2_decay = -0.5,
                                                          .eps1 = 1e-4,
                                                          .eps2 = 0.1,
                                                          .d = 1.5,
                                                          .weight_decay = 0.2,
                                                          .maximize = true})},
  };
  return all;
}
// In the golden file the Newton-Schulz steps are computed in the parameters' dtype.
inline std::map<std::string, Make> muons(Dtype dtype) {
  using namespace optim;
  return {{"muon", maker<Muon>(MuonOptions{.ns_dtype = dtype})},
          {"muon_plain",
           maker<Muon>(MuonOptions{
               .lr = 0.02, .weight_decay = 0.3, .momentum = 0.8, .nesterov = false, .ns_steps = 3, .ns_dtype = dtype})},
          {"muon_rms", maker<Muon>(MuonOptions{.lr = 0.02,
                                               .ns_coefficients = {2.0, -1.5, 0.5},
                                               .adjust_lr_fn = AdjustLr::match_rms_adamw,
                                               .ns_dtype = dtype})},
          {"muon_spectral",
           maker<Muon>(MuonOptions{.lr = 0.02, .adjust_lr_fn = AdjustLr::spectral_unclamped, .ns_dtype = dtype})}};
}

}  // namespace mantissa::test
