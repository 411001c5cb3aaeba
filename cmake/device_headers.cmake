# Writes the headers that kernels compiled at run time include into device_headers.h, as texts: device_header_names and
# device_header_texts. Those of the standard library are one of ours (cuda/library/device_std.h).
function(mantissa_device_headers directory)
  set(names "")
  set(texts "")
  foreach(header IN ITEMS core/activation_formulas.h core/binary_formulas.h core/dtype.h core/formula.h
                   core/formula_functions.h core/half.h core/host_device.h core/pointwise.h core/unary_formulas.h
                   cuda/fused.cuh cuda/vec.cuh cuda/walk.cuh)
    file(READ ${PROJECT_SOURCE_DIR}/${header} text)
    set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${header})
    string(APPEND names "  \"${header}\",\n")
    string(APPEND texts "  R\"header(${text})header\",\n")
  endforeach()
  file(READ ${PROJECT_SOURCE_DIR}/cuda/library/device_std.h text)
  set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS cuda/library/device_std.h)
  string(APPEND names "  \"device_std.h\",\n")
  string(APPEND texts "  R\"header(${text})header\",\n")
  foreach(header IN ITEMS bit cmath cstddef cstdint limits type_traits)
    string(APPEND names "  \"${header}\",\n")
    string(APPEND texts "  \"#include \\\"device_std.h\\\"\\n\",\n")
  endforeach()
  file(CONFIGURE OUTPUT ${directory}/device_headers.h @ONLY CONTENT
       "inline constexpr const char* device_header_names[] = {\n@names@};\ninline constexpr const char* device_header_texts[] = {\n@texts@};\n")
endfunction()
