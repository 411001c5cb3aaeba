// The device of a tensor. Users write `cpu`, `cuda` or `cuda(1)`.
#pragma once

#include <cstdint>
#include <string_view>

namespace mantissa {

enum class DeviceType : std::uint8_t { cpu, cuda };

struct Device {
  DeviceType type = DeviceType::cpu;
  std::int8_t index = 0;

  constexpr Device operator()(int i) const { return {type, static_cast<std::int8_t>(i)}; }
  constexpr bool is_cpu() const { return type == DeviceType::cpu; }
  constexpr bool is_cuda() const { return type == DeviceType::cuda; }
  friend constexpr bool operator==(Device, Device) = default;
};

inline constexpr Device cpu{DeviceType::cpu, 0};
inline constexpr Device cuda{DeviceType::cuda, 0};

// Number of usable GPUs: 0 in a build without CUDA or on a machine without a driver.
int cuda_device_count();
inline bool cuda_is_available() { return cuda_device_count() > 0; }
// cuda if there is a usable GPU, else cpu.
Device default_device();
// "cpu", "cuda", "cuda:1" or "auto" (default_device). Throws if there is no such device, with the reason.
Device parse_device(std::string_view text);
// Waits for all work submitted to the device, and throws its errors. Does nothing for the CPU.
void synchronize(Device device);

}  // namespace mantissa
