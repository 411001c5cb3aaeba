# Run by cmake --install with source, destination and folder_pattern (core|autograd|...): copies the public headers
# and rewrites their includes of each other. What lies in folders below (core/cpu/simd.h) is internal and stays out, but for isa.h.
string(REPLACE "|" ";" folders "${folder_pattern}")
list(TRANSFORM folders APPEND "/*.h" OUTPUT_VARIABLE patterns)
list(TRANSFORM patterns PREPEND "${source}/")
file(GLOB headers RELATIVE "${source}" ${patterns} "${source}/core/cpu/isa.h" "${source}/mantissa.h")
foreach(header IN LISTS headers)
  file(READ "${source}/${header}" text)
  string(REGEX REPLACE "#include \"((${folder_pattern})/[^\"]+)\"" "#include <mantissa/\\1>" text "${text}")
  file(WRITE "${destination}/${header}" "${text}")
endforeach()
list(LENGTH headers count)
message(STATUS "Installed ${count} headers: ${destination}")
