# One executable per tests/*_test.cpp, so that a change costs one compile and one short link, and one ctest entry each.
# They link the object files, not the archive: an operator must be in the registry although nobody calls it.
find_package(Catch2 REQUIRED)

add_custom_target(mantissa_tests)
file(GLOB test_sources CONFIGURE_DEPENDS tests/*_test.cpp)
foreach(source IN LISTS test_sources)
  cmake_path(GET source STEM name)
  mantissa_program(${name} ${source})
  target_link_libraries(${name} PRIVATE ${objects} ${link_deps} ${header_deps} Catch2::Catch2WithMain)
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  add_dependencies(mantissa_tests ${name})
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT 900 ENVIRONMENT "MANTISSA_TEST_DATA=${PROJECT_SOURCE_DIR}/tests/golden")
endforeach()
