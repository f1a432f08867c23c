# Compiler choice, warnings and the build options of the presets.

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 14)
  message(FATAL_ERROR
    "Stoker refuses GCC ${CMAKE_CXX_COMPILER_VERSION}: GCC 12 miscompiles coroutines (double frees of "
    "arguments to co_await). Configure with clang++-19, for example by './dev build' or "
    "-DCMAKE_CXX_COMPILER=clang++-19.")
elseif(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang" OR CMAKE_CXX_COMPILER_VERSION VERSION_LESS 19)
  message(FATAL_ERROR
    "Stoker is built and tested with clang 19; found ${CMAKE_CXX_COMPILER_ID} "
    "${CMAKE_CXX_COMPILER_VERSION}. Configure with -DCMAKE_CXX_COMPILER=clang++-19.")
endif()
if(NOT CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
  message(FATAL_ERROR "Stoker's kernels need an x86-64 processor; this is ${CMAKE_SYSTEM_PROCESSOR}.")
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE OFF)

set(STOKER_SANITIZE "" CACHE STRING "Sanitizers of this build: empty, 'address' (with undefined) or 'thread'")
option(STOKER_FUZZ "Build the libFuzzer programs; needs STOKER_SANITIZE=address" OFF)
option(STOKER_UNITY "Compile each area as few large translation units (CI)" OFF)

# Numbers must not depend on what the optimiser fuses: kernels ask for fused multiply-add by name.
add_compile_options(-Wall -Wextra -Werror -Wno-unused-parameter -Wno-missing-designated-field-initializers
                    -Wno-missing-field-initializers -ffp-contract=off -fno-math-errno)
add_link_options(-fuse-ld=lld-19)
if(STOKER_SANITIZE STREQUAL "address")
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
elseif(STOKER_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer)
  add_link_options(-fsanitize=thread)
elseif(NOT STOKER_SANITIZE STREQUAL "")
  message(FATAL_ERROR "STOKER_SANITIZE is '${STOKER_SANITIZE}'; it may be empty, 'address' or 'thread'.")
endif()

find_program(STOKER_CCACHE ccache)
if(STOKER_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${STOKER_CCACHE})
endif()
