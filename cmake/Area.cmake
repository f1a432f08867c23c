# stoker_area(NAME SOURCES a.cc ... [TESTS a_test.cc ...] [DEPENDS area ...] [LIBRARIES target ...]
#             [TEST_LIBRARIES target ...] [FUZZERS thing_fuzz.cc ...])
#
# One static library 'stoker_NAME' and, when TESTS are given, one test binary 'NAME_test'.
# DEPENDS are the areas whose headers this area may include; they link publicly. All areas share one include
# root, so it is tools/lint.sh that refuses an include of an undeclared area. LIBRARIES are third-party targets, private to the area's sources. Each of FUZZERS
# is a libFuzzer program, built by the preset 'asan' only.
function(stoker_area name)
  cmake_parse_arguments(AREA "" "" "SOURCES;TESTS;DEPENDS;LIBRARIES;TEST_LIBRARIES;FUZZERS" ${ARGN})
  add_library(stoker_${name} STATIC ${AREA_SOURCES})
  target_include_directories(stoker_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  list(TRANSFORM AREA_DEPENDS PREPEND stoker_)
  target_link_libraries(stoker_${name} PUBLIC ${AREA_DEPENDS} fmt::fmt PRIVATE ${AREA_LIBRARIES} Threads::Threads)
  if(STOKER_UNITY)
    set_target_properties(stoker_${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  endif()
  if(AREA_TESTS)
    add_executable(${name}_test ${AREA_TESTS})
    target_link_libraries(${name}_test PRIVATE stoker_${name} ${AREA_TEST_LIBRARIES} GTest::gtest GTest::gmock GTest::gtest_main)
    target_compile_definitions(${name}_test PRIVATE STOKER_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
    # Of a test the compiler's time is what counts: optimising it takes three times as long as not.
    target_compile_options(${name}_test PRIVATE -O0)
    target_precompile_headers(${name}_test PRIVATE <gtest/gtest.h> <string> <vector>)
    gtest_discover_tests(${name}_test DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 600 LABELS ${name})
  endif()
  if(STOKER_FUZZ AND AREA_FUZZERS)
    # Of the sources under test alone: what no fuzzer reaches need not count its branches.
    target_compile_options(stoker_${name} PRIVATE -fsanitize=fuzzer-no-link)
    foreach(source ${AREA_FUZZERS})
      get_filename_component(fuzzer ${source} NAME_WE)
      add_executable(${fuzzer} ${source})
      target_link_libraries(${fuzzer} PRIVATE stoker_${name})
      target_link_options(${fuzzer} PRIVATE -fsanitize=fuzzer)
    endforeach()
  endif()
endfunction()

# stoker_program(NAME SOURCE ... LIBRARIES target ...)
#
# A program as users run it. It has mimalloc as its allocator: an episode makes and frees thousands of small
# objects, and glibc's malloc takes a third of the orchestration's time. Sanitizers bring an allocator of their own.
function(stoker_program name)
  cmake_parse_arguments(PROGRAM "" "" "LIBRARIES" ${ARGN})
  add_executable(${name} ${PROGRAM_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE ${PROGRAM_LIBRARIES})
  if(STOKER_SANITIZE STREQUAL "")
    # First, and kept although no symbol of it is named: it takes the place of malloc and operator new.
    target_link_options(${name} PRIVATE -Wl,--push-state,--no-as-needed $<TARGET_FILE:mimalloc> -Wl,--pop-state)
  endif()
endfunction()
