"""Steps of TRL's GRPOTrainer on the job of small_model.py.

  trl_grpo.py FORM

FORM: float32 or bfloat16 (autocast). Gradient checkpointing, which its defaults have, is off: without it steps are faster. Answers
with the steps a second of the fastest of some: generation with transformers, decoding, rewards, gradients and the update. Needs
trl; run by models.py.
"""
import os
import sys
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")
import torch  # noqa: E402
from datasets import Dataset  # noqa: E402
from transformers import TrainerCallback  # noqa: E402
from trl import GRPOConfig, GRPOTrainer  # noqa: E402

import small_model  # noqa: E402
from serving import Steps  # noqa: E402


class Watch(TrainerCallback):
    def __init__(self):
        self.steps = Steps()

    def on_step_end(self, *_, **__):
        self.steps.ended()


def reward(completions, **_):
    return small_model.even_share(completions)


def main():
    torch.set_num_threads(os.cpu_count())
    torch.manual_seed(0)
    model = small_model.torch_model()
    model.config.eos_token_id = model.generation_config.eos_token_id = small_model.END
    with tempfile.TemporaryDirectory() as folder:
        arguments = GRPOConfig(
            output_dir=folder, use_cpu=True, bf16=sys.argv[1] == "bfloat16", gradient_checkpointing=False,
            per_device_train_batch_size=small_model.PROMPTS * small_model.SAMPLES, gradient_accumulation_steps=1,
            num_generations=small_model.SAMPLES, max_completion_length=small_model.NEW_TOKENS,
            max_steps=small_model.UNTIL_STOPPED, learning_rate=small_model.LEARNING_RATE, temperature=1.0, top_k=0, top_p=1.0,
            beta=0.0, report_to=[], save_strategy="no", logging_steps=small_model.UNTIL_STOPPED, disable_tqdm=True)
        GRPOTrainer(model=model, reward_funcs=reward, args=arguments, processing_class=small_model.tokenizer(),
                    train_dataset=Dataset.from_dict({"prompt": small_model.prompts(1024)}), callbacks=[Watch()]).train()


main()
