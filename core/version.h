// The version of Mantissa, in one place: CMakeLists.txt reads the three numbers from this file.
// Until 1.0 a change of the minor number may change the interface (SameMinorVersion).
#pragma once

#define MANTISSA_VERSION_MAJOR 0
#define MANTISSA_VERSION_MINOR 1
#define MANTISSA_VERSION_PATCH 0
