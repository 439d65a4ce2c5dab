"""What other engines call the methods of their models, and what takes the place of each here."""

from __future__ import annotations

_RUNS = "call model(x), or model.run({name: x})"
INSTEAD = {
    **dict.fromkeys(("predict", "infer", "forward", "invoke", "create_infer_request", "run_with_ort_values"), _RUNS),
    **dict.fromkeys(("get_inputs", "get_input_details"), "model.inputs: name, shape, dtype, quantization of each"),
    **dict.fromkeys(("get_outputs", "get_output_details"), "model.outputs: name, shape, dtype, quantization of each"),
    **dict.fromkeys(("reshape", "resize_tensor_input"), "feed another shape, or call model.resize({name: shape})"),
    "allocate_tensors": "it is not needed: memory is planned when the file is loaded",
    "set_tensor": "write model.input(name)[...] = x, and call model.execute()",
    "get_tensor": "after model.execute() it is model.output(name)",
    "io_binding": "write model.input(name)[...] = x, call model.execute(), and read model.output(name)",
    "get_modelmeta": "it is model.metadata",
    "eval": "it is not needed: a model only infers",
    **dict.fromkeys(("to", "cpu", "cuda", "half"), "it runs on the CPU, in what fastgraph.load(..., precision=) says"),
    **dict.fromkeys(("warmup", "compile"), "it is not needed: a load compiles; model.prepare plans for open shapes"),
    "get_providers": "there is the CPU alone, and model.tier says which instructions it uses",
    "get_signature_runner": "fastgraph.load(path, function=key) picks a signature",
}
"""For the end of a message, by method."""
