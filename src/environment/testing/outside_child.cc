// A program for tests that speaks the protocol and goes wrong on demand: see outside_server.h.

#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <string>

#include "environment/testing/outside_server.h"

int main() {
  using Then = stoker::testing::OutsideServer::Reaction::Then;
  stoker::testing::OutsideServer server;
  std::string line;
  while (std::getline(std::cin, line)) {
    const auto reaction = server.react(line);
    for (int i = 0; i < reaction.stderr_lines; ++i) std::fprintf(stderr, "flood %d\n", i);
    if (reaction.then == Then::kCrash) {
      std::fprintf(stderr, "planted crash\n");
      ::_exit(9);
    }
    if (reaction.then == Then::kHang) {
      while (true) ::pause();
    }
    for (const std::string& answer : reaction.lines) std::cout << answer << '\n';
    std::cout.flush();
  }
}
