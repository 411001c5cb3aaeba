// The driver's functions: those that load and launch what is compiled at run time, and that of tensor maps.
#pragma once

#include <cuda.h>

namespace cuda_shim {

void* driver_function(const char* name);  // null: there is none of that name

}  // namespace cuda_shim
