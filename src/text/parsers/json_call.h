#pragma once

#include <cstddef>
#include <string>

#include "text/json_machine.h"
#include "text/json_text.h"
#include "text/parsers/turn_scan.h"

namespace stoker {

// What came of reading a part of JSON.
struct JsonPart {
  bool ok = true;
  bool cut = false;         // not ok because the text ended
  size_t position = 0;      // not ok: the byte that could not be understood
  const char* reason = "";  // not ok: what was expected there
  size_t recover_from = 0;  // not ok: where to look for what comes next; a string's start, if it was in one
  size_t begin = 0;         // ok: the value's first byte; the place read up to is one past its last
};

class JsonValueScanner final : public Scanner<JsonPart> {
 public:
  JsonValueScanner(TurnScan& scan, bool arguments)
      : Scanner(scan.in), scan_(scan), arguments_(arguments), begin_(scan.in.at()) {}
  bool advance() override;

 private:
  TurnScan& scan_;
  bool arguments_;
  size_t begin_;
  JsonMachine machine_;
};
// Reads one JSON value at the place read up to. With `arguments` its text goes to the open call's arguments.
inline JsonValueScanner read_json_value(TurnScan& scan, bool arguments) { return {scan, arguments}; }

// A step through the members of an object (or the elements of an array) behind its opening bracket: the part
// where the member's value starts (`begin`), or the end of the object, which is consumed.
struct JsonMember {
  JsonPart part;
  bool end = false;
  std::string name;
};
Reading<JsonMember> next_member(TurnScan& scan, bool first);
Reading<JsonMember> next_element(TurnScan& scan, bool first);

// How a call object ended.
enum class CallObject {
  kRead,      // to its closing bracket, understood or with a problem
  kBroken,    // not JSON: the call has a problem; reading goes on where JsonPart::recover_from said
  kNotACall,  // nothing that says it is one; the place read up to is where that became clear
};

// Reads {"name": ..., "arguments" or "parameters": object or text} at its opening bracket into the open call;
// {"function": {...}} around them and {"function": NAME} are read too. `certain`: it is known to be a call
// (it stands behind a call tag). Otherwise it becomes one when both name and arguments have been seen; until
// then nothing is announced and it may turn out to be kNotACall, with the call still open.
Reading<CallObject> read_call_object(TurnScan& scan, bool certain);

// Reads the elements of a list of call objects behind its opening bracket, each as a call of its own. False:
// the list is broken or cut off, told in a problem; the place read up to is where recovery starts.
// `certain` as above; a list that shows no call before something else is left with no call, false.
Reading<bool> read_call_list(TurnScan& scan, bool certain);

// Reads an object's text that is all arguments (the name stood elsewhere) into the open call. False: it is
// broken; the call has a problem and the place read up to is where recovery starts.
Reading<bool> read_arguments_object(TurnScan& scan);

// The sentence for a part of a call that is no JSON; `begin` is where the call's JSON starts.
Reading<bool> tell_json_problem(TurnScan& scan, JsonPart part, size_t begin);

// The string that the JSON text [begin, end) is; empty if it is none.
std::string decoded_string(const TurnScan& scan, size_t begin, size_t end);

}  // namespace stoker
