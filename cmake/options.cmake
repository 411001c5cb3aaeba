# Build type, ccache, instruction sets, the answer to MANTISSA_CUDA, and the flags of every target.
# Never -ffast-math: NaN and infinity are how the loss scaler learns that a step overflowed.

if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, RelWithDebInfo or Debug" FORCE)
endif()

if((CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 11) OR
   (CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 16))
  message(FATAL_ERROR "Mantissa is written in C++20 and needs g++ 11 or clang 16, found "
                      "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}.")
endif()

find_program(MANTISSA_CCACHE ccache)
mark_as_advanced(MANTISSA_CCACHE)
if(MANTISSA_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${MANTISSA_CCACHE})
endif()

# One entry per instruction set. The plainest comes first, also at link time.
set(MANTISSA_ISAS baseline)
set(MANTISSA_ISA_FLAGS_baseline "")
set(MANTISSA_ONE_ISA "" CACHE STRING "baseline, avx2 or avx512: the only one to compile (for one machine, or sanitizers: a third of the kernels)")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  set(MANTISSA_ISA_FLAGS_baseline -march=x86-64)
  set(MANTISSA_ISA_FLAGS_avx2 -march=x86-64-v3)
  set(MANTISSA_ISA_FLAGS_avx512 -march=x86-64-v4 -mprefer-vector-width=512)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # g++ 12 warns about its own AVX-512 headers
    list(APPEND MANTISSA_ISA_FLAGS_avx512 -Wno-uninitialized)
  endif()
  if(MANTISSA_ONE_ISA)
    if(NOT MANTISSA_ONE_ISA MATCHES "^(baseline|avx2|avx512)$")
      message(FATAL_ERROR "MANTISSA_ONE_ISA must be baseline, avx2 or avx512, but is \"${MANTISSA_ONE_ISA}\".")
    endif()
    add_compile_definitions(MANTISSA_ONE_ISA)  # there is one namespace of kernels then, and it is called baseline
    set(MANTISSA_ISA_FLAGS_baseline ${MANTISSA_ISA_FLAGS_${MANTISSA_ONE_ISA}})
  else()
    list(APPEND MANTISSA_ISAS avx2 avx512)
  endif()
endif()

# mantissa_need(name debian_package [options]): find_package, or an error that says how to get it.
macro(mantissa_need name package)
  find_package(${name} QUIET ${ARGN})
  if(NOT ${name}_FOUND)
    message(FATAL_ERROR "${name} was not found. On Debian: apt-get install ${package}. "
                        "scripts/demo.sh and scripts/test.sh install everything that is needed.")
  endif()
endmacro()

function(mantissa_flags target)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_EXTENSIONS OFF)
  target_compile_features(${target} PRIVATE cxx_std_20)
  target_compile_options(${target} PRIVATE -Wall -Wextra -fno-math-errno $<$<CONFIG:Release>:-O2>
                                           $<$<BOOL:${MANTISSA_WERROR}>:-Werror>)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # it takes the unused tail of a copied Dims for a mistake
    target_compile_options(${target} PRIVATE -Wno-maybe-uninitialized)
  endif()
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/include)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "OBJECT_LIBRARY")
    target_link_libraries(${target} PRIVATE ${link_deps} ${header_deps})
    target_include_directories(${target} SYSTEM PRIVATE ${xsimd_include})
  endif()
endfunction()
