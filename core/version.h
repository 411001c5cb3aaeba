// The version of Mantissa, defined once: CMakeLists.txt reads the three numbers from this file. Until 1.0 a new minor
// version may change the interface (SameMinorVersion).
#pragma once

#define MANTISSA_VERSION_MAJOR 0
#define MANTISSA_VERSION_MINOR 1
#define MANTISSA_VERSION_PATCH 0
