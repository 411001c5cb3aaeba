// Where a tensor lives. `cpu`, `cuda` and `cuda(1)` are the spellings users write.
#pragma once

#include <cstdint>

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

}  // namespace mantissa
