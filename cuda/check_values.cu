// Checks of values that do not wait (ops/check_values.h).
#include <deque>
#include <mutex>

#include "core/kernel.h"
#include "cuda/launch.cuh"
#include "cuda/noted_messages.h"

namespace mantissa {
MANTISSA_CUDA_KERNEL(note_unless_all, const View& ok, const char* name, const char* message)
}

namespace mantissa::cuda_backend {
namespace {

struct Messages {
  std::mutex mutex;
  std::deque<std::string> texts;
};
Messages& messages() {
  static Messages& all = *new Messages;  // never destroyed: captured graphs may outlive static objects
  return all;
}

__global__ void note_unless_all_kernel(const bool* ok, std::int64_t n, int message, Note* note) {
  wait_for_previous_kernel();
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step)
    if (!ok[i]) note_out_of_range(note, 4, message, n, i);
}

}  // namespace

int number_of_message(std::string_view text) {
  const std::lock_guard lock(messages().mutex);
  std::deque<std::string>& texts = messages().texts;
  for (std::size_t i = 0; i < texts.size(); ++i)
    if (texts[i] == text) return static_cast<int>(i);
  texts.emplace_back(text);
  return static_cast<int>(texts.size()) - 1;
}
std::string noted_message(long long number) {
  const std::lock_guard lock(messages().mutex);
  return messages().texts.at(static_cast<std::size_t>(number));
}

void note_unless_all(const View& ok, const char* name, const char* message) {
  launch("check_values", &note_unless_all_kernel, grid_for(ok.numel(), 8), ok.as<const bool>(), ok.numel(),
         number_of_message(concat(name, ": ", message)), note());
}

}  // namespace mantissa::cuda_backend
