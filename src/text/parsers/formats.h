#pragma once

#include "text/parsers/turn_scan.h"

namespace stoker {

// Each reads the body of a turn, behind its thinking, in one format. False: the text has ended. True: it was
// all thinking that the prompt had opened, and the body starts anew at the place read up to.
Reading<bool> read_plain(TurnScan& scan);
Reading<bool> read_hermes(TurnScan& scan);
Reading<bool> read_qwen3_coder(TurnScan& scan);
Reading<bool> read_llama3_json(TurnScan& scan);
Reading<bool> read_pythonic(TurnScan& scan);
Reading<bool> read_mistral(TurnScan& scan);
Reading<bool> read_deepseek(TurnScan& scan);
// One call in the markup of DeepSeek V3.2 at its opening tag: <｜DSML｜invoke name="...">, its parameters,
// its closing tag.
Reading<bool> read_deepseek_markup_call(TurnScan& scan);
Reading<bool> read_gemma(TurnScan& scan);
Reading<bool> read_openai_json(TurnScan& scan);
Reading<bool> read_fenced_json(TurnScan& scan);

}  // namespace stoker
