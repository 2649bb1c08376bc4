#!/usr/bin/env python3
"""Writes spec/peer/fixtures/*.lua: figures from PyTorch that the specs compare with.

    python3 spec/peer/make_fixtures.py        # from the repository's root; needs PyTorch (1.13 or newer)

Only results are written. Inputs and initial weights come from a generator that both sides compute exactly
(spec/support/random.lua: Lehmer's, modulus 2^31 - 1), so the files stay small.
"""
import os
import torch
import torch.nn as nn
import torch.nn.functional as F

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fixtures")


class Generator:
    """spec/support/random.lua, word for word."""
    def __init__(self, seed):
        self.state = seed * 7919 % 2147483646 + 1
        for _ in range(8):
            self.uniform()

    def uniform(self, low=0.0, high=1.0):
        self.state = self.state * 48271 % 2147483647
        return low + (high - low) * ((self.state - 1) / 2147483646)

    def integer(self, low, high):
        return min(high, low + int(self.uniform() * (high - low + 1)))


def uniform(generator, shape, low=-1.0, high=1.0, dtype=torch.float64):
    n = 1
    for extent in shape:
        n *= extent
    return torch.tensor([generator.uniform(low, high) for _ in range(n)], dtype=torch.float64).reshape(shape).to(dtype)


def integers(generator, shape, low, high):
    n = 1
    for extent in shape:
        n *= extent
    return torch.tensor([generator.integer(low, high) for _ in range(n)], dtype=torch.int64).reshape(shape)


def lua(value, indent=0):
    pad = "  " * (indent + 1)
    if isinstance(value, torch.Tensor):
        value = {"shape": list(value.shape), "values": value.detach().double().reshape(-1).tolist()}
    if isinstance(value, dict):
        return "{\n" + "".join(f"{pad}{k} = {lua(v, indent + 1)},\n" for k, v in value.items()) + "  " * indent + "}"
    if isinstance(value, (list, tuple)):
        if not value or all(isinstance(v, (int, float)) for v in value):
            words, lines, line = [number(v) for v in value], [], ""
            for word in words:
                if len(line) + len(word) > 100:
                    lines.append(line.rstrip())
                    line = ""
                line += word + ", "
            lines.append(line.rstrip(", "))
            if len(lines) == 1:
                return "{ " + lines[0] + " }" if lines[0] else "{}"
            return "{\n" + "".join(f"{pad}{line.rstrip(',')},\n" for line in lines) + "  " * indent + "}"
        return "{\n" + "".join(f"{pad}{lua(v, indent + 1)},\n" for v in value) + "  " * indent + "}"
    return number(value)


def number(v):
    if isinstance(v, bool):
        return "true" if v else "false"
    if isinstance(v, str):
        return '"' + v + '"'
    return repr(v) if isinstance(v, int) else "%.17g" % v


def write(name, table):
    with open(os.path.join(FOLDER, name + ".lua"), "w") as file:
        file.write(f"-- Written by spec/peer/make_fixtures.py with PyTorch {torch.__version__.split('+')[0]}.\n")
        file.write("return " + lua(table) + "\n")


def with_gradients(f, *leaves):
    """f's value, and the gradients of the sum of its elements weighted by the generator's numbers."""
    for leaf in leaves:
        leaf.requires_grad_(True)
    out = f(*leaves)
    (out * uniform(Generator(99), list(out.shape))).sum().backward()
    return {"value": out, "gradients": [leaf.grad for leaf in leaves]}


def layers():
    table = {}

    def case(name, seed, shapes, f):
        g = Generator(seed)
        table[name] = with_gradients(f, *[uniform(g, s) for s in shapes])

    case("linear", 1, [[5, 4], [3, 4], [3]], F.linear)
    case("linear_without_bias", 2, [[2, 3, 4], [5, 4]], F.linear)
    case("relu", 3, [[3, 7]], F.relu)
    case("tanh", 4, [[3, 7]], torch.tanh)
    case("sigmoid", 5, [[3, 7]], torch.sigmoid)
    case("gelu", 6, [[3, 7]], F.gelu)
    case("gelu_tanh", 7, [[3, 7]], lambda x: 0.5 * x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x ** 3))))
    case("layer_norm", 8, [[4, 6], [6], [6]], lambda x, w, b: F.layer_norm(x, [6], w, b))
    case("layer_norm_two_dimensions", 9, [[3, 4, 5], [4, 5], [4, 5]], lambda x, w, b: F.layer_norm(x, [4, 5], w, b, 1e-3))
    case("softmax", 10, [[4, 5, 3]], lambda x: F.softmax(3 * x, 1))
    case("log_softmax", 11, [[4, 5]], lambda x: F.log_softmax(3 * x, -1))
    case("logsumexp", 12, [[4, 5]], lambda x: torch.logsumexp(3 * x, 1))
    case("var", 13, [[4, 5]], lambda x: x.var(1))
    case("std", 14, [[4, 5]], lambda x: x.std(0, unbiased=False))
    case("norm", 15, [[4, 5]], lambda x: x.norm(dim=1))
    case("embedding", 16, [[6, 3]], lambda w: F.embedding(torch.tensor([[0, 5, 2], [2, 2, 1]]), w))
    case("einsum", 17, [[3, 4, 5], [3, 5, 2]], lambda a, b: torch.einsum("bij,bjk->bki", a, b))
    write("layers", table)


def losses():
    table = {}
    target = torch.tensor([2, 0, 4, 1, 1, 3])
    ignoring = torch.tensor([2, -100, 4, 1, -100, 3])
    weight = torch.tensor([0.2, 1.0, 0.5, 2.0, 1.5], dtype=torch.float64)

    def case(name, seed, shape, f, scale=2.0):
        table[name] = with_gradients(f, uniform(Generator(seed), shape, -scale, scale))

    for reduction in ("mean", "sum", "none"):
        case("cross_entropy_" + reduction, 21, [6, 5], lambda x: F.cross_entropy(x, target, reduction=reduction))
        case("smoothed_" + reduction, 22, [6, 5],
             lambda x: F.cross_entropy(x, target, label_smoothing=0.1, reduction=reduction))
        case("ignoring_" + reduction, 23, [6, 5], lambda x: F.cross_entropy(x, ignoring, reduction=reduction))
        case("weighted_" + reduction, 24, [6, 5],
             lambda x: F.cross_entropy(x, target, weight=weight, reduction=reduction))
        case("weighted_smoothed_ignoring_" + reduction, 25, [6, 5],
             lambda x: F.cross_entropy(x, ignoring, weight=weight, label_smoothing=0.2, reduction=reduction))
        case("nll_" + reduction, 26, [6, 5], lambda x: F.nll_loss(x, target, reduction=reduction))
        case("nll_weighted_ignoring_" + reduction, 27, [6, 5],
             lambda x: F.nll_loss(x, ignoring, weight=weight, reduction=reduction))
        case("mse_" + reduction, 28, [4, 3],
             lambda x: F.mse_loss(x, uniform(Generator(29), [4, 3]), reduction=reduction))
        case("bce_" + reduction, 30, [4, 3],
             lambda x: F.binary_cross_entropy_with_logits(x, uniform(Generator(31), [4, 3], 0, 1), reduction=reduction))
    case("cross_entropy_of_images", 32, [2, 3, 2, 2],
         lambda x: F.cross_entropy(x, torch.tensor([[[0, 1], [2, 1]], [[1, 1], [0, 2]]])))
    case("cross_entropy_of_probabilities", 33, [3, 4],
         lambda x: F.cross_entropy(x, torch.softmax(uniform(Generator(34), [3, 4]), 1)))
    case("cross_entropy_of_one_sample", 35, [5], lambda x: F.cross_entropy(x, torch.tensor(3)))
    case("bce_weighted", 36, [4, 3], lambda x: F.binary_cross_entropy_with_logits(
        x, uniform(Generator(37), [4, 3], 0, 1), pos_weight=torch.tensor([0.5, 1.0, 3.0], dtype=torch.float64)))
    write("losses", table)


OPTIMIZERS = {
    "sgd": (torch.optim.SGD, dict(lr=0.1)),
    "sgd_momentum": (torch.optim.SGD, dict(lr=0.05, momentum=0.9)),
    "sgd_dampening": (torch.optim.SGD, dict(lr=0.05, momentum=0.9, dampening=0.3)),
    "sgd_nesterov": (torch.optim.SGD, dict(lr=0.05, momentum=0.8, nesterov=True)),
    "sgd_weight_decay": (torch.optim.SGD, dict(lr=0.05, momentum=0.9, weight_decay=0.1)),
    "adam": (torch.optim.Adam, dict(lr=0.01)),
    "adam_weight_decay": (torch.optim.Adam, dict(lr=0.02, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1)),
    "adamw": (torch.optim.AdamW, dict(lr=0.02)),
    "adamw_decay": (torch.optim.AdamW, dict(lr=0.02, betas=(0.85, 0.99), weight_decay=0.3)),
}


def optimizers():
    table = {}
    for name, (make, options) in OPTIMIZERS.items():
        g = Generator(41)
        w, b = uniform(g, [3, 4]).requires_grad_(True), uniform(g, [3]).requires_grad_(True)
        x, y = uniform(g, [6, 4]), uniform(g, [6, 3])
        optimizer = make([w, b], **options)
        steps = []
        for _ in range(10):
            optimizer.zero_grad()
            F.mse_loss(torch.tanh(F.linear(x, w, b)), y).backward()
            optimizer.step()
            steps.append(torch.cat([w.detach().reshape(-1), b.detach()]).tolist())
        table[name] = {"options": {k: list(v) if isinstance(v, tuple) else v for k, v in options.items()}, "steps": steps}
    g = Generator(42)
    w, b = uniform(g, [3, 4]).requires_grad_(True), uniform(g, [3]).requires_grad_(True)
    x, y = uniform(g, [6, 4]), uniform(g, [6, 3])
    optimizer = torch.optim.SGD([{"params": [w], "lr": 0.2}, {"params": [b], "weight_decay": 0.5}], lr=0.05, momentum=0.5)
    steps = []
    for _ in range(10):
        optimizer.zero_grad()
        F.mse_loss(torch.tanh(F.linear(x, w, b)), y).backward()
        optimizer.step()
        steps.append(torch.cat([w.detach().reshape(-1), b.detach()]).tolist())
    table["groups"] = {"steps": steps}
    for norm in (1.0, 2.0, float("inf")):
        g = Generator(43)
        leaves = [uniform(g, [3, 4]).requires_grad_(True), uniform(g, [5]).requires_grad_(True)]
        for leaf in leaves:
            leaf.grad = uniform(g, list(leaf.shape), -3, 3)
        total = nn.utils.clip_grad_norm_(leaves, 1.5, norm_type=norm)
        table["clip_" + ("max" if norm == float("inf") else str(int(norm)))] = {
            "total": total.item(), "gradients": [leaf.grad for leaf in leaves]}
    write("optimizers", table)


def mlp_losses(dtype, steps):
    """The mlp workload: 784-1024-1024-10, batch 256, Adam, from weights and inputs of the generator.

    A unit that is silent on the whole batch and wakes by a rounding error moves by the learning rate at once, since
    Adam knows no gradient of it yet; centred inputs, He's initialisation and this seed have no such unit, and
    float32 stays within 3e-6 of float64 over 20 steps, in any order of summation.
    """
    g = Generator(9)
    widths = [784, 1024, 1024, 10]
    parts = []
    for fan_in, fan_out in zip(widths, widths[1:]):
        linear = nn.Linear(fan_in, fan_out).to(dtype)
        bound = (6 / fan_in) ** 0.5
        with torch.no_grad():
            linear.weight.copy_(uniform(g, [fan_out, fan_in], -bound, bound, dtype))
            linear.bias.copy_(uniform(g, [fan_out], -0.1, 0.1, dtype))
        parts += [linear, nn.ReLU()]
    model = nn.Sequential(*parts[:-1])
    x, y = uniform(g, [256, 784], -1, 1, dtype), integers(g, [256], 0, 9)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def mlp():
    write("mlp", {"float32": mlp_losses(torch.float32, 20), "float64": mlp_losses(torch.float64, 20)})


if __name__ == "__main__":
    os.makedirs(FOLDER, exist_ok=True)
    torch.set_num_threads(2)
    layers()
    losses()
    optimizers()
    mlp()
