"""A reward function as verl's `custom_reward_function.path` takes it, untouched.

python3 -m stoker_env try verl:verl_score:compute_score
"""

import re


def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    """The number after "####", with a little for the format alone."""
    if data_source != "openai/gsm8k":
        raise NotImplementedError("no score for %s" % data_source)
    match = re.search(r"#### (-?[0-9.,]+)", solution_str)
    if match is None:
        return {"score": 0.0, "format": False}
    right = match.group(1).replace(",", "") == ground_truth
    return {"score": 1.0 if right else 0.1, "format": True}
