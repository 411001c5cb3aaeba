# cmake --install: the library, its headers, find_package(mantissa) and pkg-config.
# Inside the repository headers say "core/tensor.h"; installed ones say <mantissa/core/tensor.h>, so that users get one
# include folder and a folder named core/ or io/ of their own can never be mistaken for ours.
set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/mantissa)
install(TARGETS mantissa EXPORT mantissaTargets)
if(TARGET mantissa_cuda)
  install(TARGETS mantissa_cuda EXPORT mantissaTargets)
endif()
if(TARGET mantissa_run)  # of the samples: it starts programs of others, too
  set_target_properties(mantissa_run PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
  install(TARGETS mantissa_run OPTIONAL RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(EXPORT mantissaTargets NAMESPACE mantissa:: DESTINATION ${config_dir})

list(JOIN folders "|" folder_pattern)
install(CODE "
  set(source \"${PROJECT_SOURCE_DIR}\")
  set(destination \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_INCLUDEDIR}/mantissa\")
  set(folder_pattern \"${folder_pattern}\")
  include(\"\${source}/cmake/install_headers.cmake\")")

configure_package_config_file(cmake/mantissaConfig.cmake.in mantissaConfig.cmake INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file(mantissaConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/mantissaConfig.cmake ${PROJECT_BINARY_DIR}/mantissaConfigVersion.cmake
              cmake/FindoneDNN.cmake cmake/FindTurboJPEG.cmake cmake/Findutf8proc.cmake DESTINATION ${config_dir})

set(pc_requires Requires)  # who links a static library links its dependencies too
set(pc_libs "-lmantissa -ldnnl ${OpenMP_CXX_FLAGS} -pthread")
if(TARGET mantissa_cuda)
  set(pc_libs "-Wl,--whole-archive -lmantissa_cuda -Wl,--no-whole-archive ${pc_libs} -L${CUDAToolkit_LIBRARY_DIR} ${cuda_pc_libs}")
endif()
if(BUILD_SHARED_LIBS)
  set(pc_requires Requires.private)
  set(pc_libs "-lmantissa")
endif()
# From where the file lies: right for `cmake --install --prefix` and for a folder that was moved.
file(RELATIVE_PATH pc_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" pc_prefix "${pc_prefix}")
configure_file(cmake/mantissa.pc.in mantissa.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/mantissa.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
