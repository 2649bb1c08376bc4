#!/usr/bin/env python3
"""Writes spec/peer/fixtures/*.lua: figures from PyTorch that the specs compare with.

    python3 spec/peer/make_fixtures.py        # from the repository's root; needs PyTorch (1.13 or newer)

Only results are written. Inputs and initial weights come from a generator that both sides compute exactly
(spec/support/random.lua: Lehmer's, modulus 2^31 - 1), so the files stay small.
"""
import functools
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


def modules():
    """Activations, normalisations and the losses on real targets."""
    table = {}

    def case(name, seed, shapes, f, low=-1.0, high=1.0):
        g = Generator(seed)
        table[name] = with_gradients(f, *[uniform(g, s, low, high) for s in shapes])

    activations = {
        "relu6": lambda x: F.relu6(2 * x), "silu": F.silu, "mish": F.mish, "softplus": lambda x: F.softplus(x, 2, 5),
        "logsigmoid": F.logsigmoid, "hardswish": F.hardswish,
        "hardsigmoid": lambda x: (x / 6 + 0.5).clamp(0, 1),  # F.hardsigmoid's gradient has a float32 1/6 in it
        "hardtanh": lambda x: F.hardtanh(x, -2, 1.5), "leaky_relu": lambda x: F.leaky_relu(x, 0.2),
        "elu": lambda x: F.elu(x, 0.7), "glu": lambda x: F.glu(x, -1),
    }
    for name, f in activations.items():
        case(name, 51, [[3, 8]], f, -4, 4)
    case("normalize", 52, [[3, 4]], lambda x: F.normalize(x, dim=1))
    case("cosine_similarity", 53, [[3, 4], [3, 4]], lambda a, b: F.cosine_similarity(a, b, dim=1))
    case("rms_norm", 54, [[4, 6], [6]], lambda x, w: x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-3) * w)
    case("group_norm", 55, [[2, 6, 5], [6], [6]], lambda x, w, b: F.group_norm(x, 3, w, b))
    case("batch_norm", 56, [[4, 3, 5], [3], [3]], lambda x, w, b: F.batch_norm(x, None, None, w, b, True))
    running = [torch.tensor([0.1, -0.2, 0.3], dtype=torch.float64), torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)]
    case("batch_norm_by_running_statistics", 57, [[4, 3, 2, 2], [3], [3]],
         lambda x, w, b: F.batch_norm(x, *running, w, b, False))
    norm = nn.BatchNorm1d(3).double()
    g = Generator(58)
    for _ in range(3):
        norm(uniform(g, [4, 3], -2, 3))
    table["running_statistics"] = {"mean": norm.running_mean, "var": norm.running_var}

    write("modules", table)
    table.clear()
    g = Generator(63)
    y, sign = uniform(g, [4, 3], -2, 2), torch.tensor([[1.0, -1, 1]] * 4, dtype=torch.float64)
    p = torch.softmax(y, 1)
    for reduction in ("mean", "sum", "none"):
        r = dict(reduction=reduction)
        case("l1_" + reduction, 64, [[4, 3]], lambda x: F.l1_loss(x, y, **r))
        case("smooth_l1_" + reduction, 65, [[4, 3]], lambda x: F.smooth_l1_loss(x, y, beta=0.5, **r))
        case("huber_" + reduction, 66, [[4, 3]], lambda x: F.huber_loss(x, y, delta=0.5, **r))
        case("binary_" + reduction, 67, [[4, 3]], lambda x: F.binary_cross_entropy(x, p, **r), 0.05, 0.95)
        case("kl_" + reduction, 68, [[4, 3]], lambda x: F.kl_div(x, p, **r))
        case("hinge_" + reduction, 69, [[4, 3]], lambda x: F.hinge_embedding_loss(x, sign, margin=0.5, **r))
        case("ranking_" + reduction, 70, [[4, 3], [4, 3]],
             lambda a, b: F.margin_ranking_loss(a, b, sign, margin=0.2, **r))
        case("triplet_" + reduction, 71, [[4, 3]] * 3, lambda a, b, c: F.triplet_margin_loss(a, b, c, **r))
    case("kl_batchmean", 72, [[4, 3]], lambda x: F.kl_div(x, p, reduction="batchmean"))
    case("kl_log_target", 73, [[4, 3]], lambda x: F.kl_div(x, p.log(), reduction="sum", log_target=True))
    write("distances", table)


def attention():
    table = {}

    def case(name, seed, shapes, f):
        g = Generator(seed)
        table[name] = with_gradients(f, *[uniform(g, s) for s in shapes])

    def attend(x, w, b, out_w, out_b, **options):
        return F.multi_head_attention_forward(x, x, x, 8, 2, w, b, None, None, False, 0.0, out_w, out_b,
                                              training=False, need_weights=False, **options)[0]

    widths = [[5, 2, 8], [24, 8], [24], [8, 8], [8]]
    causal = torch.ones(5, 5, dtype=torch.bool).triu(1)
    padding = torch.tensor([[False] * 5, [False, False, False, True, True]])
    case("attention", 59, widths, attend)
    case("attention_causal", 60, widths, lambda *a: attend(*a, attn_mask=causal))
    case("attention_padded", 61, widths, lambda *a: attend(*a, key_padding_mask=padding))
    for name, options in {"encoder": {}, "encoder_norm_first": dict(norm_first=True, activation="gelu")}.items():
        layer = nn.TransformerEncoderLayer(8, 2, 12, dropout=0, batch_first=True, **options).double()
        names = [n for n, _ in layer.named_parameters()]
        case(name, 62, [[2, 5, 8]] + [list(p.shape) for p in layer.parameters()],
             lambda x, *p: torch.nn.utils.stateless.functional_call(layer, dict(zip(names, p)), (x,)))
    write("attention", table)


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
ADAPTIVE = {
    "adam_amsgrad": (torch.optim.Adam, dict(lr=0.05, betas=(0.5, 0.6), amsgrad=True)),
    "sgd_maximize": (torch.optim.SGD, dict(lr=0.05, momentum=0.9, maximize=True)),
    "adamax": (torch.optim.Adamax, dict(lr=0.02, weight_decay=0.1)),
    # foreach: the other loop of PyTorch 1.13 multiplies mu twice into the second product
    "nadam": (functools.partial(torch.optim.NAdam, foreach=True), dict(lr=0.02, weight_decay=0.1)),
    "radam": (torch.optim.RAdam, dict(lr=0.02, betas=(0.8, 0.9), weight_decay=0.1)),
    "rmsprop": (torch.optim.RMSprop, dict(lr=0.01)),
    "rmsprop_centered": (torch.optim.RMSprop, dict(lr=0.01, alpha=0.9, momentum=0.5, centered=True, weight_decay=0.1)),
    "adagrad": (torch.optim.Adagrad, dict(lr=0.05, lr_decay=0.1, weight_decay=0.1, initial_accumulator_value=0.3)),
    "adadelta": (torch.optim.Adadelta, dict(lr=0.5, rho=0.8, weight_decay=0.1)),
    "rprop": (torch.optim.Rprop, dict(lr=0.01)),
    "asgd": (torch.optim.ASGD, dict(lr=0.05, lambd=0.01, t0=3, weight_decay=0.1)),
}


def ten_steps(kinds):
    table = {}
    for name, (make, options) in kinds.items():
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
    return table


def optimizers():
    write("adaptive", ten_steps(ADAPTIVE))
    table = ten_steps(OPTIMIZERS)
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
    modules()
    attention()
    optimizers()
    mlp()
