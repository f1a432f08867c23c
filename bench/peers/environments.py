"""Virtual environments of the peers, under build/bench/peers, made on first use from PyPI."""
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.path.join(ROOT, "build", "bench", "peers")
PACKAGES = {
    "trl": ["trl==1.16.0", "torch==2.15.0", "transformers==5.24.0", "accelerate==1.15.0", "datasets==5.2.0", "tokenizers==0.23.3"],
    "llama": ["llama-cpp-python==0.3.36", "gguf==0.19.0", "numpy==2.4.6"],
    "tunix": ["google-tunix==0.1.7", "jax==0.10.2", "jaxlib==0.10.2", "flax==0.12.8", "optax==0.2.8", "transformers==5.12.1",
              "numpy==2.4.6"],
}


def environment(name):
    """The Python of a peer's virtual environment, made when it is not there; None when that fails."""
    folder = os.path.join(FOLDER, name)
    python = os.path.join(folder, "bin", "python")
    done = os.path.join(folder, "complete")
    if os.path.exists(done):
        return python
    print(f"installing {name} ...", file=sys.stderr, flush=True)
    os.makedirs(FOLDER, exist_ok=True)
    options = dict(os.environ, CMAKE_ARGS="-DGGML_NATIVE=ON -DLLAVA_BUILD=OFF")
    try:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES[name]], check=True, env=options)
    except subprocess.CalledProcessError as failure:
        print(f"{name} cannot be installed: {failure}", file=sys.stderr)
        return None
    open(done, "w").close()
    return python
