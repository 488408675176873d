// Runs the command `filterblock` on files that an engine wrote.
#pragma once

#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "check.h"

namespace check {

// The exit status of the command, and its output on stdout and stderr.
struct Run {
  int status = -1;
  std::string printed;

  bool Has(const std::string& text) const { return printed.find(text) != std::string::npos; }
};

// Runs `filterblock` through a shell. The environment variable FILTERBLOCK names the command.
inline Run Filterblock(const std::string& arguments) {
  const char* command = std::getenv("FILTERBLOCK");
  CHECK_WITH(command != nullptr, "set FILTERBLOCK to the command; integrations/run-cxx does");
  FILE* pipe = popen((std::string(command) + " " + arguments + " 2>&1").c_str(), "r");
  CHECK(pipe != nullptr);
  Run run;
  char buffer[4096];
  for (size_t len = 0; (len = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) {
    run.printed.append(buffer, len);
  }
  const int status = pclose(pipe);
  CHECK(WIFEXITED(status));
  run.status = WEXITSTATUS(status);
  return run;
}

// Runs `filterblock` and fails unless it exits with `status` and prints each of `texts`.
inline void Expect(const std::string& arguments, int status, const std::vector<std::string>& texts) {
  const Run run = Filterblock(arguments);
  CHECK_WITH(run.status == status,
             arguments + ": status " + std::to_string(run.status) + ":\n" + run.printed);
  for (const std::string& text : texts) {
    CHECK_WITH(run.Has(text), arguments + ": no \"" + text + "\" in:\n" + run.printed);
  }
}

}  // namespace check
