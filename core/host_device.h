// MANTISSA_HD marks a function that also runs on the device.
#pragma once

#if defined(__CUDACC__)
#define MANTISSA_HD __host__ __device__
#else
#define MANTISSA_HD
#endif
