// Texts of the errors that kernels note by their number (Note in cuda/runtime.h), kept until the program ends.
#pragma once

#include <string>
#include <string_view>

namespace mantissa::cuda_backend {

int number_of_message(std::string_view text);
std::string noted_message(long long number);

}  // namespace mantissa::cuda_backend
