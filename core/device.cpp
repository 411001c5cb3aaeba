#include "core/device.h"

#include <charconv>

#include "core/accelerator.h"

namespace mantissa {
namespace {

// Weak functions are null in a program without a CUDA backend.
bool is_linked(int (*f)()) { return f != nullptr; }

}  // namespace

bool cuda_backend::has_cuda_backend() { return is_linked(&cuda_backend::device_count); }
void cuda_backend::fail_without_kernel() {
  if (!has_cuda_backend()) fail("this build of Mantissa has no CUDA backend; use device cpu");
  fail("has no cuda kernel in this build");
}

int cuda_device_count() { return cuda_backend::has_cuda_backend() ? cuda_backend::device_count() : 0; }
Device default_device() { return cuda_is_available() ? cuda : cpu; }

Device parse_device(std::string_view text) {
  if (text == "cpu") return cpu;
  if (text == "auto") return default_device();
  int index = text == "cuda" ? 0 : -1;
  if (text.starts_with("cuda:")) {
    const auto [end, error] = std::from_chars(text.data() + 5, text.data() + text.size(), index);
    if (error != std::errc() || end != text.data() + text.size()) index = -1;
  }
  check(index >= 0 && index < 128, "device \"", text, "\": must be cpu, cuda, cuda:N or auto");
  check(cuda_backend::has_cuda_backend(), "device \"", text,
        "\": this build of Mantissa has no CUDA backend; use device cpu");
  const int count = cuda_device_count();
  check(count > 0, "device \"", text, "\": no GPU can be used: ", cuda_backend::why_no_device());
  check(index < count, "device \"", text, "\": this machine has ", count, count == 1 ? " GPU" : " GPUs");
  return cuda(index);
}

void synchronize(Device device) {
  if (!device.is_cpu()) cuda_backend::prepare(&cuda_backend::synchronize, device)(device);
}

}  // namespace mantissa
