// Selects the launch for an optimizer's formula.
#include "core/optim_formulas.h"
#include "cuda/optim_entry.h"

namespace mantissa::cuda_backend {

void optimizer_step(int formula, const double* hyper, const bool* skip, const GradientReading& reading,
                    std::span<const ParameterView> parameters) {
  if (formula == optim_formulas::number_of<optim_formulas::LAMB>) return lamb_step(hyper, skip, reading, parameters);
  const UpdateLaunch* const files[optim_files] = {optim_0, optim_1, optim_2, optim_3};
  files[formula % optim_files][formula / optim_files](hyper, skip, reading, parameters);
}

}  // namespace mantissa::cuda_backend
