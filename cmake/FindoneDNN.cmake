# Finds oneDNN 2.x or 3.x by its headers and library. Its own config file is not used: Debian's asks for
# the OpenCL development files, which a CPU build does not need, and puts libOpenCL on every link line.
# Defines oneDNN::oneDNN and oneDNN_VERSION. Installed too: users of the static library need it.
find_path(oneDNN_INCLUDE_DIR dnnl.hpp)
find_library(oneDNN_LIBRARY dnnl)
mark_as_advanced(oneDNN_INCLUDE_DIR oneDNN_LIBRARY)

foreach(folder "" "oneapi/dnnl/")
  set(oneDNN_version_file "${oneDNN_INCLUDE_DIR}/${folder}dnnl_version.h")
  if(oneDNN_INCLUDE_DIR AND EXISTS "${oneDNN_version_file}")
    file(STRINGS "${oneDNN_version_file}" oneDNN_lines REGEX "define DNNL_VERSION_(MAJOR|MINOR|PATCH) +[0-9]+")
    if(oneDNN_lines)
      string(REGEX REPLACE "[^0-9;]" "" oneDNN_VERSION "${oneDNN_lines}")
      list(JOIN oneDNN_VERSION "." oneDNN_VERSION)
    endif()
  endif()
endforeach()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(oneDNN REQUIRED_VARS oneDNN_LIBRARY oneDNN_INCLUDE_DIR VERSION_VAR oneDNN_VERSION)
if(oneDNN_FOUND AND NOT TARGET oneDNN::oneDNN)
  add_library(oneDNN::oneDNN UNKNOWN IMPORTED)
  set_target_properties(oneDNN::oneDNN PROPERTIES IMPORTED_LOCATION "${oneDNN_LIBRARY}"
                                                  INTERFACE_INCLUDE_DIRECTORIES "${oneDNN_INCLUDE_DIR}")
endif()
