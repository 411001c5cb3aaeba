# One executable per tests/*_test.cpp, so that a change costs one compile and one short link, and one ctest entry each.
# They link a shared library of the object files (250 programs with all of it inside are minutes of linking and 10 GB),
# not the archive: an operator must be in the registry although nobody calls it.
mantissa_need(Catch2 catch2)

find_program(MANTISSA_SH sh REQUIRED)
mark_as_advanced(MANTISSA_SH)

set(test_seconds 900)
if(CMAKE_CXX_FLAGS MATCHES "-fsanitize=")
  set(test_seconds 5400)  # ThreadSanitizer takes many times as long
endif()

function(mantissa_tested_library name)  # further arguments: object files
  if(CMAKE_CXX_FLAGS MATCHES "-fsanitize=")  # sanitizers have been run on programs with all of it inside, and only so
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE ${objects} ${ARGN})
    return()
  endif()
  add_library(${name} SHARED ${objects} ${ARGN})
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX)
  target_link_libraries(${name} PRIVATE ${link_deps})
endfunction()
mantissa_tested_library(mantissa_tested)

function(mantissa_test_flags name)  # they compile a quarter faster unoptimised; what they test, the library, is optimised
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O0>)
  target_compile_definitions(${name} PRIVATE MANTISSA_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
endfunction()

# Tables of golden cases that several tests run.
file(GLOB golden_sources CONFIGURE_DEPENDS tests/golden/*.cpp)
add_library(golden_cases STATIC ${golden_sources})
mantissa_flags(golden_cases)
mantissa_test_flags(golden_cases)
target_link_libraries(golden_cases PRIVATE ${header_deps} Catch2::Catch2)

add_custom_target(mantissa_tests)
function(mantissa_test name source library)  # source: a file, or the objects of one that several tests share
  mantissa_program(${name} ${source})
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX)
  target_link_libraries(${name} PRIVATE golden_cases ${library} ${ARGN} ${link_deps} ${header_deps} Catch2::Catch2WithMain)
  mantissa_test_flags(${name})
  add_dependencies(mantissa_tests ${name})
  add_test(NAME ${name} COMMAND ${name})
  # Ways to compute are chosen by rule: timing would decide the last bits, and with them whether a test passes.
  set_tests_properties(${name} PROPERTIES TIMEOUT ${test_seconds} ENVIRONMENT MANTISSA_TUNER=off)
endfunction()

file(GLOB test_sources CONFIGURE_DEPENDS tests/*_test.cpp)
file(GLOB cuda_test_sources CONFIGURE_DEPENDS tests/cuda_*_test.cpp)
list(REMOVE_ITEM test_sources ${cuda_test_sources} ${PROJECT_SOURCE_DIR}/tests/llama_model_test.cpp)
foreach(source IN LISTS test_sources)
  cmake_path(GET source STEM name)
  mantissa_test(${name} ${source} mantissa_tested)
endforeach()
if(TARGET samples_common)
  mantissa_test(llama_model_test tests/llama_model_test.cpp mantissa_tested $<TARGET_OBJECTS:samples_common>)
endif()
# These compute much themselves, to compare with.
foreach(name IN ITEMS allocator conv every_optimizer order strided winograd)
  target_compile_options(${name}_test PRIVATE $<$<CONFIG:Release>:-O1>)
endforeach()
# It counts instructions of operators, which the library compiles with -O2.
target_compile_options(autocast_cost_test PRIVATE $<$<CONFIG:Release>:-O2>)

# oneDNN takes its instruction set from the environment when the program starts.
foreach(isa IN ITEMS avx2 baseline)
  foreach(name IN ITEMS conv kernel_paths)
    add_test(NAME ${name}_${isa}_test COMMAND ${name}_test)
    set_tests_properties(${name}_${isa}_test PROPERTIES TIMEOUT ${test_seconds} ENVIRONMENT "MANTISSA_TUNER=off;MANTISSA_ISA=${isa}")
  endforeach()
endforeach()

# What multiplies bf16 by AMX, also where the processor has none: emulated.
foreach(name IN ITEMS attention recurrence)
  add_test(NAME amx_${name}_test COMMAND ${name}_test)
  set_tests_properties(amx_${name}_test PROPERTIES TIMEOUT ${test_seconds} ENVIRONMENT "MANTISSA_TUNER=off;MANTISSA_TEST_AMX=1")
endforeach()

# The CUDA backend on the CPU: cuda/*.cu compiled by the C++ compiler (tests/cuda_shim). tests/cuda_*_test.cpp run on it,
# and as gpu_*_test on the GPU where one is compiled for; tests/cuda_shim/*_test.cpp test what only the shim can show.
add_subdirectory(tests/cuda_shim)
mantissa_tested_library(mantissa_tested_on_shim $<TARGET_OBJECTS:mantissa_cuda_shim>)
function(mantissa_shim_test name source)
  mantissa_test(${name} ${source} mantissa_tested_on_shim)
  target_compile_definitions(${name} PRIVATE MANTISSA_CUDA_SHIM)
  target_include_directories(${name} BEFORE PRIVATE ${PROJECT_SOURCE_DIR}/tests/cuda_shim/include)
endfunction()
file(GLOB shim_test_sources CONFIGURE_DEPENDS tests/cuda_shim/*_test.cpp)
foreach(source IN LISTS shim_test_sources)
  cmake_path(GET source STEM name)
  mantissa_shim_test(${name} ${source})
endforeach()
set(gpu_library mantissa)  # with BUILD_SHARED_LIBS it has all of it, once: the programs travel (scripts/gpu_pack.sh)
if(MANTISSA_WITH_CUDA AND NOT BUILD_SHARED_LIBS)
  set(gpu_library mantissa_tested_on_gpu)
  mantissa_tested_library(${gpu_library} $<TARGET_OBJECTS:mantissa_cuda_objects>)
endif()
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${cuda_test_sources})  # which may begin to ask for the shim
foreach(source IN LISTS cuda_test_sources)
  cmake_path(GET source STEM name)
  string(REGEX REPLACE "^cuda_" "gpu_" gpu_name "${name}")
  file(STRINGS ${source} asks_for_the_shim REGEX "MANTISSA_CUDA_SHIM|\"cuda/(runtime|check)\\.h\"|cuda_runtime\\.h" LIMIT_COUNT 1)
  if(NOT asks_for_the_shim)  # it is compiled once; the CUDA runtime's own header would not link with the shim
    add_library(${name}_object OBJECT ${source})
    mantissa_flags(${name}_object)
    mantissa_test_flags(${name}_object)
    set(source $<TARGET_OBJECTS:${name}_object>)
  endif()
  mantissa_shim_test(${name} ${source})
  if(MANTISSA_WITH_CUDA)
    mantissa_test(${gpu_name} ${source} ${gpu_library})
    set_tests_properties(${gpu_name} PROPERTIES LABELS gpu)
  endif()
endforeach()
target_compile_options(machine_test PRIVATE -Wno-unknown-pragmas)  # it includes cuda/vec.cuh
target_compile_options(hopper_twin_test PRIVATE -Wno-psabi)        # a tensor map as a parameter
if(NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize")  # it has kernels of its own that are not aligned
  target_compile_options(machine_test PRIVATE -fsanitize=alignment)
endif()
# The same tests when launches and copies happen as late as streams and events allow.
foreach(name IN ITEMS cuda_capture cuda_capture_backward cuda_capture_outside cuda_capture_random cuda_capture_versions cuda_data cuda_optim
                      cuda_streams cuda_training)
  add_test(NAME late_${name}_test COMMAND ${name}_test)
  set_tests_properties(late_${name}_test PROPERTIES TIMEOUT ${test_seconds} ENVIRONMENT "MANTISSA_TUNER=off;MANTISSA_SHIM_LATE=1")
endforeach()
# The same tests with the ways that come first on a GPU: the shim's cuBLASLt and cuDNN instead of our own kernels. (Cases
# "on a GPU ..." count launches of the latter.)
set(products_and_convolutions "matmul,bmm,addmm,linear,linear_act,feed_forward,conv1d,conv2d,conv2d_input_grad,conv2d_weight_grad,conv3d,conv3d_input_grad,conv3d_weight_grad,conv_transpose1d,conv_transpose2d,conv_transpose3d,scaled_dot_product_attention")
foreach(name IN ITEMS cuda_capture cuda_capture_backward cuda_capture_outside cuda_channels_last cuda_feed_forward cuda_linear_act
                      cuda_linear_cross_entropy cuda_modules cuda_registry cuda_training cuda_weight_gradient)
  add_test(NAME libraries_${name}_test COMMAND ${name}_test "~on a GPU *")
  set_tests_properties(libraries_${name}_test PROPERTIES TIMEOUT ${test_seconds}
                       ENVIRONMENT "MANTISSA_TUNER=off;MANTISSA_SHIM_CUDNN=on;MANTISSA_TUNER_SKIP=mma,hopper;MANTISSA_OP=${products_and_convolutions}")
endforeach()
# And with our kernels for Hopper first.
foreach(name IN ITEMS cuda_feed_forward cuda_linear_act cuda_linear_cross_entropy cuda_registry cuda_training cuda_weight_gradient)
  add_test(NAME hopper_${name}_test COMMAND ${name}_test)
  set_tests_properties(hopper_${name}_test PROPERTIES TIMEOUT ${test_seconds}
                       ENVIRONMENT "MANTISSA_TUNER=off;MANTISSA_TUNER_SKIP=mma;MANTISSA_OP=matmul,bmm,addmm,linear,linear_act,feed_forward")
endforeach()
# With the tuner, as scripts/gpu.sh has it on a GPU: all ways of a product, a convolution and attention are compared with
# the first and timed; nothing is kept, because which is the fastest says nothing here.
add_test(NAME tuned_cuda_registry_test COMMAND cuda_registry_test)
set_tests_properties(tuned_cuda_registry_test PROPERTIES TIMEOUT ${test_seconds} FAIL_REGULAR_EXPRESSION "is not used"
                     ENVIRONMENT "MANTISSA_TUNER=on;MANTISSA_CACHE=/dev/null;MANTISSA_SHIM_CUDNN=on;MANTISSA_OP=linear_act,feed_forward,conv2d,scaled_dot_product_attention")
# What eager work on the device costs on the host.
add_executable(cuda_host_bench tests/cuda_shim/host_bench.cpp $<TARGET_OBJECTS:mantissa_cuda_shim>)
mantissa_flags(cuda_host_bench)
target_link_libraries(cuda_host_bench PRIVATE ${objects} ${link_deps} ${header_deps})
target_compile_definitions(cuda_host_bench PRIVATE MANTISSA_CUDA_SHIM)
target_include_directories(cuda_host_bench BEFORE PRIVATE ${PROJECT_SOURCE_DIR}/tests/cuda_shim/include)
# The benchmark of single kernels computes right; what it measures, it measures on a GPU.
add_executable(cuda_bench_check bench/cuda_bench.cpp $<TARGET_OBJECTS:mantissa_cuda_shim>)
mantissa_flags(cuda_bench_check)
target_link_libraries(cuda_bench_check PRIVATE ${objects} ${link_deps} ${header_deps})
target_compile_definitions(cuda_bench_check PRIVATE MANTISSA_CUDA_SHIM)
target_include_directories(cuda_bench_check BEFORE PRIVATE ${PROJECT_SOURCE_DIR}/tests/cuda_shim/include)
add_test(NAME cuda_bench_check COMMAND cuda_bench_check --check)
# The benchmark's worker on the shim's device: its step as it is, and as one graph.
if(MANTISSA_BENCH)
  add_executable(shim_mantissa_bench $<TARGET_OBJECTS:mantissa_bench_objects> $<TARGET_OBJECTS:bench_workloads>)
  set_target_properties(shim_mantissa_bench PROPERTIES LINKER_LANGUAGE CXX)
  target_link_libraries(shim_mantissa_bench PRIVATE mantissa_tested_on_shim ${link_deps})
  add_test(NAME bench_cuda_test COMMAND ${MANTISSA_SH} ${PROJECT_SOURCE_DIR}/tests/bench_cuda_test.sh
           $<TARGET_FILE:shim_mantissa_bench>)
  set_tests_properties(bench_cuda_test PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 300 ENVIRONMENT MANTISSA_TUNER=off)
endif()
# Samples that train on the shim's device, for scripts/check_all.sh: ninja shim_samples
if(MANTISSA_SAMPLES AND NOT MANTISSA_WITH_CUDA AND NOT BUILD_SHARED_LIBS)
  add_custom_target(shim_samples)
  foreach(source IN LISTS samples)
    cmake_path(GET source STEM name)
    add_executable(shim_${name} EXCLUDE_FROM_ALL ${source} $<TARGET_OBJECTS:mantissa_cuda_shim>)
    mantissa_flags(shim_${name})
    target_link_libraries(shim_${name} PRIVATE samples_common ${link_deps})
    add_dependencies(shim_samples shim_${name})
  endforeach()
endif()
add_test(NAME cuda_kernels_test COMMAND ${MANTISSA_SH} ${PROJECT_SOURCE_DIR}/tests/cuda_kernels_test.sh ${CMAKE_NM}
         $<TARGET_OBJECTS:mantissa_cpu_baseline> -- $<TARGET_OBJECTS:mantissa_cuda_shim> COMMAND_EXPAND_LISTS)
if(MANTISSA_WITH_CUDA)
  add_test(NAME cuda_resources_test COMMAND ${MANTISSA_SH} ${PROJECT_SOURCE_DIR}/tests/cuda_resources_test.sh
           ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/CMakeFiles/mantissa_cuda_objects.dir)
endif()

# jit::fuse compiles its kernels at run time: on the shim by the C++ compiler, into libraries that need the program's own symbols.
set_target_properties(cuda_fuse_test PROPERTIES ENABLE_EXPORTS ON)
if(MANTISSA_WITH_NVRTC)
  mantissa_test(nvrtc_test tests/nvrtc/nvrtc_test.cpp mantissa_tested)
  target_sources(nvrtc_test PRIVATE cuda/fused_text.cpp cuda/library/nvrtc.cpp)
  target_compile_definitions(nvrtc_test PRIVATE MANTISSA_HAS_NVRTC)
  target_include_directories(nvrtc_test PRIVATE ${PROJECT_BINARY_DIR}/device_headers ${NVRTC_INCLUDE_DIR})
  target_link_libraries(nvrtc_test PRIVATE CUDA::nvrtc ${CMAKE_DL_LIBS})
endif()

add_test(NAME cudnn_engines_test COMMAND ${MANTISSA_SH} ${PROJECT_SOURCE_DIR}/tests/cudnn_engines_test.sh
         ${PROJECT_SOURCE_DIR} ${CMAKE_CXX_COMPILER})
set_tests_properties(cudnn_engines_test PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 300)

add_test(NAME onnx_runtime_test COMMAND ${MANTISSA_SH} ${PROJECT_SOURCE_DIR}/tests/onnx_runtime_test.sh $<TARGET_FILE:onnx_test>)
set_tests_properties(onnx_runtime_test PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT ${test_seconds} ENVIRONMENT MANTISSA_TUNER=off)
add_test(NAME onnx_examples_test COMMAND ${MANTISSA_SH} ${PROJECT_SOURCE_DIR}/tests/onnx_examples_test.sh
         $<TARGET_FILE:onnx_model_test>)
set_tests_properties(onnx_examples_test PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT ${test_seconds})
add_test(NAME line_length_test COMMAND ${MANTISSA_SH} ${PROJECT_SOURCE_DIR}/tests/line_length_test.sh ${PROJECT_SOURCE_DIR})
add_test(NAME include_test COMMAND ${MANTISSA_SH} ${PROJECT_SOURCE_DIR}/tests/include_test.sh
         ${PROJECT_SOURCE_DIR} ${CMAKE_CXX_COMPILER})
if(TARGET overhead_bench AND CMAKE_BUILD_TYPE STREQUAL "Release")
  add_test(NAME instructions_test COMMAND ${MANTISSA_SH} ${PROJECT_SOURCE_DIR}/tests/instructions_test.sh $<TARGET_FILE:overhead_bench>
           ${CMAKE_CXX_COMPILER})
  set_tests_properties(instructions_test PROPERTIES SKIP_RETURN_CODE 77)
  add_test(NAME cuda_instructions_test COMMAND ${MANTISSA_SH} ${PROJECT_SOURCE_DIR}/tests/instructions_test.sh
           $<TARGET_FILE:cuda_host_bench> ${CMAKE_CXX_COMPILER})
  set_tests_properties(cuda_instructions_test PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 300)
endif()
add_test(NAME fields_test COMMAND ${MANTISSA_SH} ${PROJECT_SOURCE_DIR}/tests/fields_test.sh
         ${PROJECT_SOURCE_DIR} ${CMAKE_CXX_COMPILER})
if(TARGET mantissa_cpu_avx2 AND NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize")  # sanitizers register every object at start
  add_test(NAME isa_test COMMAND ${MANTISSA_SH} ${PROJECT_SOURCE_DIR}/tests/isa_test.sh ${CMAKE_READELF}
           $<TARGET_OBJECTS:mantissa_cpu_avx2> $<TARGET_OBJECTS:mantissa_cpu_avx512> COMMAND_EXPAND_LISTS)
endif()
add_test(NAME download_test COMMAND ${MANTISSA_SH} ${PROJECT_SOURCE_DIR}/tests/download_test.sh ${PROJECT_SOURCE_DIR})
find_program(MANTISSA_BASH bash)
mark_as_advanced(MANTISSA_BASH)
if(MANTISSA_BASH)
  add_test(NAME gpu_script_test COMMAND ${MANTISSA_BASH} ${PROJECT_SOURCE_DIR}/tests/gpu_script_test.sh ${PROJECT_SOURCE_DIR})
  set_tests_properties(gpu_script_test PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 300)
endif()
add_test(NAME bench_test COMMAND ${MANTISSA_SH} ${PROJECT_SOURCE_DIR}/tests/bench_test.sh)
set_tests_properties(bench_test PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 300)
add_test(NAME bench_torch_test COMMAND ${MANTISSA_SH} ${PROJECT_SOURCE_DIR}/tests/bench_torch_test.sh)
set_tests_properties(bench_torch_test PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 300)
if(TARGET mnist)
  add_test(NAME mnist_test COMMAND ${MANTISSA_SH} ${PROJECT_SOURCE_DIR}/tests/mnist_test.sh $<TARGET_FILE:mnist>)
endif()
if(TARGET mnist AND TARGET mantissa_run)
  add_test(NAME mantissa_run_test COMMAND ${MANTISSA_SH} ${PROJECT_SOURCE_DIR}/tests/mantissa_run_test.sh
           $<TARGET_FILE:mantissa_run> $<TARGET_FILE:mnist>)
endif()
# sample_test(NAME ENDLESS OPTIONS...): see tests/sample_test.sh
function(sample_test name endless)
  if(TARGET ${name})
    add_test(NAME ${name}_sample_test COMMAND ${MANTISSA_SH} ${PROJECT_SOURCE_DIR}/tests/sample_test.sh $<TARGET_FILE:${name}> ${endless} ${ARGN})
  endif()
endfunction()
sample_test(gpt "--epochs 100000" --data ${PROJECT_SOURCE_DIR}/README.md --epochs 1 --layers 1 --width 32 --heads 2 --context 16 --write 20)
sample_test(gpt2 "--epochs 100000" --data ${PROJECT_SOURCE_DIR}/README.md --epochs 1 --layers 1 --width 32 --heads 2 --context 16 --vocabulary 300 --write 20)
sample_test(llama "--epochs 100000" --data ${PROJECT_SOURCE_DIR}/README.md --epochs 1 --layers 1 --width 32 --heads 2 --kv-heads 1 --context 16 --vocabulary 300 --write 20)
sample_test(char_rnn "--epochs 100000" --data ${PROJECT_SOURCE_DIR}/README.md --epochs 1 --layers 1 --width 16 --length 16 --write 20)
sample_test(dcgan "--epochs 100000" --dataset synthetic --limit 128 --batch 32 --epochs 1 --width 8)
sample_test(diffusion "--epochs 100000" --dataset synthetic --limit 32 --batch 8 --epochs 1 --width 8 --steps 2)
sample_test(unet "--epochs 100000" --dataset synthetic --limit 16 --batch 8 --epochs 1 --width 4 --levels 2)
sample_test(detector "--epochs 100000" --dataset synthetic --limit 16 --batch 8 --epochs 1)
set(images --dataset synthetic-color --limit 32 --batch 16 --threads 1)
sample_test(cifar "--epochs 100000" ${images} --model fast --width 4 --epochs 2)
sample_test(vit "--epochs 100000" ${images} --width 16 --heads 2 --layers 1 --patch 8 --epochs 2 --augment trivial)
sample_test(imagenet "--epochs 100000" ${images} --model resnet18 --epochs 1)
if(TARGET imagenet)
  add_test(NAME imagenet_test COMMAND ${MANTISSA_SH} ${PROJECT_SOURCE_DIR}/tests/imagenet_test.sh $<TARGET_FILE:imagenet>)
endif()
if(TARGET cifar)
  foreach(model lenet simple resnet18)
    add_test(NAME cifar_${model}_test COMMAND cifar ${images} --model ${model} --width 4 --epochs 1)
  endforeach()
  foreach(augment rand auto augmix)
    add_test(NAME cifar_${augment}_test COMMAND cifar ${images} --model lenet --epochs 1 --augment ${augment})
  endforeach()
endif()
sample_test(cartpole "--epochs 100000 --target 501" --epochs 2 --target 501)
if(TARGET amp_benchmark)
  add_test(NAME amp_benchmark_sample_test COMMAND amp_benchmark --width 64 --batch 32 --iterations 5)
endif()
if(TARGET gpt2)
  add_test(NAME gpt2_test COMMAND ${MANTISSA_SH} ${PROJECT_SOURCE_DIR}/tests/gpt2_test.sh $<TARGET_FILE:gpt2> ${PROJECT_SOURCE_DIR}/tests/golden/files/gpt2)
endif()
if(TARGET llama)
  add_test(NAME llama_test COMMAND ${MANTISSA_SH} ${PROJECT_SOURCE_DIR}/tests/llama_test.sh $<TARGET_FILE:llama> ${PROJECT_SOURCE_DIR}/tests/golden/files/llama)
endif()
if(TARGET inspect)
  add_test(NAME inspect_sample_test COMMAND inspect ${PROJECT_SOURCE_DIR}/tests/golden/files/checkpoint.pt
           --save ${PROJECT_BINARY_DIR}/inspect_sample_test.safetensors)
endif()
foreach(name IN ITEMS custom_op mantissa_info)
  if(TARGET ${name})
    add_test(NAME ${name}_sample_test COMMAND ${name})
  endif()
endforeach()
if(MANTISSA_INSTALL)
  add_test(NAME consumer_test COMMAND ${MANTISSA_SH} ${PROJECT_SOURCE_DIR}/tests/consumer/run.sh ${CMAKE_COMMAND}
           ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR} ${CMAKE_CXX_COMPILER} "${CMAKE_BUILD_TYPE}" "${CMAKE_CXX_FLAGS}")
endif()
