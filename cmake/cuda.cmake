# The answer to MANTISSA_CUDA, the toolkit, and the object files of cuda/.
# AUTO compiles CUDA code where it can run: where there are a toolkit and a GPU. ON needs the toolkit alone; that it
# is missing is an error, never a silent build without. No GPU is needed to configure, to build or to run on the CPU.

if(NOT MANTISSA_CUDA MATCHES "^(AUTO|ON|OFF|auto|on|off)$")
  message(FATAL_ERROR "MANTISSA_CUDA must be AUTO, ON or OFF, but is \"${MANTISSA_CUDA}\".")
endif()
string(TOUPPER "${MANTISSA_CUDA}" cuda_choice)
set(MANTISSA_WITH_CUDA OFF)
set(cuda_summary off)

if(NOT cuda_choice STREQUAL "OFF")
  find_package(CUDAToolkit 12.4 QUIET)
  file(GLOB gpus /dev/nvidia[0-9]* /dev/dxg)
  if(CUDAToolkit_FOUND AND EXISTS "${CUDAToolkit_NVCC_EXECUTABLE}" AND (gpus OR cuda_choice STREQUAL "ON"))
    set(MANTISSA_WITH_CUDA ON)
  elseif(cuda_choice STREQUAL "ON")
    message(FATAL_ERROR "MANTISSA_CUDA=ON: no CUDA Toolkit 12.4 or newer was found. Put nvcc on PATH, or pass "
                        "-DCUDAToolkit_ROOT=/path/to/cuda; -DMANTISSA_CUDA=OFF builds without CUDA.")
  elseif(CUDAToolkit_FOUND)
    set(cuda_summary "off: toolkit ${CUDAToolkit_VERSION}, but no GPU (-DMANTISSA_CUDA=ON compiles for one)")
  else()
    set(cuda_summary "off: no toolkit found")
  endif()
endif()

if(MANTISSA_WITH_CUDA)
  # CMake before 3.26 does not know nvcc's C++20 and would quietly compile C++17.
  if(CMAKE_VERSION VERSION_LESS 3.26 AND NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  endif()
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 90a CACHE STRING "GPUs to compile for: 80, 90a, 100, 120 or a list of them")
  endif()
  if(NOT CMAKE_CUDA_COMPILER)
    set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
  endif()
  if(NOT CMAKE_CUDA_HOST_COMPILER)
    set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER})
  endif()
  set(CMAKE_CUDA_COMPILER_LAUNCHER sh ${PROJECT_SOURCE_DIR}/cmake/ptxas_report.sh ${CMAKE_CXX_COMPILER_LAUNCHER})
  if(PROJECT_IS_TOP_LEVEL)  # not for the CUDA files of who includes this project
    set(CMAKE_CUDA_FLAGS_RELEASE "-O1 -DNDEBUG" CACHE STRING "-O is for the code around launches; kernels always get nvcc's highest")
  endif()
  set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)  # the one that CUDA::cudart names: a program must not contain two
  enable_language(CUDA)
  list(JOIN CMAKE_CUDA_ARCHITECTURES ", sm_" cuda_architectures)
  set(cuda_summary "toolkit ${CUDAToolkit_VERSION}, sm_${cuda_architectures}")
  set(cuda_deps CUDA::cudart CUDA::cublasLt ${CMAKE_DL_LIBS})
  # cuDNN 9, beside the toolkit or where CUDNN_ROOT says. Without it convolutions are unfolded into products.
  find_path(CUDNN_INCLUDE_DIR cudnn_graph.h HINTS ${CUDNN_ROOT} ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES include)
  find_library(CUDNN_LIBRARY NAMES cudnn libcudnn.so.9 HINTS ${CUDNN_ROOT} ${CUDAToolkit_LIBRARY_DIR} PATH_SUFFIXES lib lib64)
  mark_as_advanced(CUDNN_INCLUDE_DIR CUDNN_LIBRARY)
  if(CUDNN_INCLUDE_DIR AND CUDNN_LIBRARY)
    list(APPEND cuda_deps ${CUDNN_LIBRARY})
    string(APPEND cuda_summary ", cuDNN")
  else()
    string(APPEND cuda_summary ", no cuDNN (-DCUDNN_ROOT=... tells where it is)")
  endif()
  # NCCL's header: the library is opened at run time (cuda/library/nccl.cpp).
  find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${NCCL_ROOT} ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES include)
  mark_as_advanced(NCCL_INCLUDE_DIR)
  if(NOT NCCL_INCLUDE_DIR)
    string(APPEND cuda_summary ", no NCCL (-DNCCL_ROOT=... tells where nccl.h is)")
  endif()
  set(cuda_pc_libs "-lcudart -lcublasLt")
  # Without NVRTC jit::fuse runs the operators one by one on a GPU. Its header may be missing where its library is not.
  find_path(NVRTC_INCLUDE_DIR nvrtc.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  mark_as_advanced(NVRTC_INCLUDE_DIR)
  if(TARGET CUDA::nvrtc AND NVRTC_INCLUDE_DIR)
    set(MANTISSA_WITH_NVRTC ON)
    # CMake has it depend on the driver's library, which programs must start without.
    set_property(TARGET CUDA::nvrtc PROPERTY INTERFACE_LINK_LIBRARIES "")
    list(APPEND cuda_deps CUDA::nvrtc)
    string(APPEND cuda_pc_libs " -lnvrtc")
  else()
    string(APPEND cuda_summary ", no NVRTC")
  endif()
  if(CUDNN_LIBRARY)
    string(APPEND cuda_pc_libs " ${CUDNN_LIBRARY}")
  endif()
endif()

function(mantissa_cuda_objects)
  file(GLOB cuda_sources CONFIGURE_DEPENDS cuda/*.cu cuda/*.cpp cuda/library/*.cpp amp/kernels/*.cu)
  add_library(mantissa_cuda_objects OBJECT ${cuda_sources})
  set_target_properties(mantissa_cuda_objects PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_EXTENSIONS OFF CUDA_EXTENSIONS OFF
                                                         CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON)
  target_compile_features(mantissa_cuda_objects PRIVATE cxx_std_20)
  # What ptxas says of every kernel is kept beside its object file: tests/cuda_resources_test.sh reads it.
  target_compile_options(mantissa_cuda_objects PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wno-maybe-uninitialized>
    $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${MANTISSA_WERROR}>>:-Werror>
    $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr -Xptxas=-v -Xcompiler=-Wall -Xcudafe=--display_error_number>
    # A third of the default's size, in every program: every driver for CUDA 13 can read it, for 12 those from 12.4 on.
    $<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<VERSION_GREATER_EQUAL:$<CUDA_COMPILER_VERSION>,13>>:--compress-mode=size>
    $<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${MANTISSA_WERROR}>>:--Werror=all-warnings>)
  if(NOT CMAKE_CUDA_ARCHITECTURES MATCHES "90a")  # wgmma and TMA are of this target alone
    target_compile_definitions(mantissa_cuda_objects PRIVATE MANTISSA_NO_SM90A)
  endif()
  target_include_directories(mantissa_cuda_objects PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(mantissa_cuda_objects PRIVATE ${cuda_deps})
  if(TARGET CUDA::nvtx3)
    target_link_libraries(mantissa_cuda_objects PRIVATE CUDA::nvtx3)
  else()  # a toolkit without it, as of nvcc and cudart alone: profilers then show kernels by their own names
    file(WRITE ${PROJECT_BINARY_DIR}/no_nvtx/nvtx3/nvToolsExt.h
         "inline int nvtxRangePushA(const char*) { return 0; }\ninline int nvtxRangePop() { return 0; }\n")
    target_include_directories(mantissa_cuda_objects PRIVATE ${PROJECT_BINARY_DIR}/no_nvtx)
  endif()
  if(MANTISSA_WITH_NVRTC)
    mantissa_device_headers(${PROJECT_BINARY_DIR}/device_headers)
    target_include_directories(mantissa_cuda_objects PRIVATE ${PROJECT_BINARY_DIR}/device_headers ${NVRTC_INCLUDE_DIR})
    target_compile_definitions(mantissa_cuda_objects PRIVATE MANTISSA_HAS_NVRTC)
  endif()
  if(CUDNN_INCLUDE_DIR AND CUDNN_LIBRARY)
    target_include_directories(mantissa_cuda_objects PRIVATE ${CUDNN_INCLUDE_DIR})
    target_compile_definitions(mantissa_cuda_objects PRIVATE MANTISSA_HAS_CUDNN)
  endif()
  if(NCCL_INCLUDE_DIR)
    target_include_directories(mantissa_cuda_objects PRIVATE ${NCCL_INCLUDE_DIR})
    target_compile_definitions(mantissa_cuda_objects PRIVATE MANTISSA_HAS_NCCL)
  endif()
endfunction()

# nvcc's PTX of every kernel, which the CPU shim executes (tests/cuda_shim/ptx.h): ninja mantissa_ptx
function(mantissa_cuda_ptx)
  file(GLOB kernel_sources CONFIGURE_DEPENDS cuda/*.cu amp/kernels/*.cu)
  add_library(mantissa_ptx OBJECT EXCLUDE_FROM_ALL ${kernel_sources})
  set_target_properties(mantissa_ptx PROPERTIES CUDA_PTX_COMPILATION ON CUDA_ARCHITECTURES 90a-virtual CUDA_EXTENSIONS OFF
                                                CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON)
  target_compile_options(mantissa_ptx PRIVATE --expt-relaxed-constexpr)
  target_include_directories(mantissa_ptx PRIVATE $<TARGET_PROPERTY:mantissa_cuda_objects,INCLUDE_DIRECTORIES>)
endfunction()
