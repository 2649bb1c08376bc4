-- Training workloads timed, shape for shape those that PyTorch is timed with:
--
--     ctrain spec/bench/workloads.lua [--seconds N] [--mode compiled|replayed|eager] [NAME ...]
--
-- NAME is one of tiny, mlp, mlp64, gpt (default: all, a process each, so that peak memory is each one's own). A line a
-- workload: name, median milliseconds a step, steps a second, samples a second, peak MiB, last loss. Every step is
-- forward, backward and the optimizer's update, on inputs that do not change.
local ct = require "ctrain"
local core = require "ctrain.core"

local nn = ct.nn
local F = nn.functional

-- ---- The transformer -------------------------------------------------------------------------------------

local Block = nn.class "Block"

function Block:init(dim, heads)
  self.heads = heads
  self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
  self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
  self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)
end

function Block:forward(x)
  local batch, positions, dim = x.shape[1], x.shape[2], x.shape[3]
  local parts = self.qkv(self.n1(x)):reshape(batch, positions, 3, self.heads, dim / self.heads):permute(3, 1, 4, 2, 5)
  local attended = F.scaled_dot_product_attention(parts[1], parts[2], parts[3], { is_causal = true })
  x = x + self.out(attended:transpose(2, 3):reshape(batch, positions, dim))
  return x + self.down(F.gelu(self.up(self.n2(x)), "tanh"))
end

-- Decoder only, pre-norm, learned positions, the output head tied to the token embedding.
local GPT = nn.class "GPT"

function GPT:init(vocabulary, context, dim, heads, layers)
  self.tok, self.pos = nn.Embedding(vocabulary, dim), nn.Embedding(context, dim)
  local blocks = {}
  for i = 1, layers do blocks[i] = Block(dim, heads) end
  self.blocks = nn.ModuleList(blocks)
  self.norm = nn.LayerNorm(dim)
  for _, parameter in ipairs(self:parameters()) do
    if parameter.ndim > 1 then nn.init.normal_(parameter, 0, 0.02) end
  end
end

function GPT:forward(ids)
  local x = self.tok(ids) + self.pos.weight:narrow(1, 1, ids.shape[2])
  for _, block in ipairs(self.blocks) do x = block(x) end
  return self.norm(x):matmul(self.tok.weight:t())
end

-- ---- The workloads: model, inputs, labels, optimizer -----------------------------------------------------

local workloads, order = {}, { "tiny", "mlp", "mlp64", "gpt" }

function workloads.tiny()
  local model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))
  local optimizer = ct.optim.SGD(model:parameters(), { lr = 0.1, momentum = 0.9 })
  return model, ct.randn(16, 4), ct.randint(0, 3, { 16 }), optimizer
end

local function mlp(dtype)
  local model = nn.Sequential(nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
  model:to(dtype)
  local x, y = ct.rand(256, 784):to(dtype), ct.randint(0, 10, { 256 })
  return model, x, y, ct.optim.Adam(model:parameters(), { lr = 1e-3 })
end

function workloads.mlp() return mlp "float32" end

function workloads.mlp64() return mlp "float64" end

function workloads.gpt()
  local model = GPT(65, 128, 128, 4, 4)
  return model, ct.randint(0, 65, { 16, 128 }), ct.randint(0, 65, { 16, 128 }),
    ct.optim.AdamW(model:parameters(), { lr = 3e-4, weight_decay = 0.1 })
end

-- ---- Running them ----------------------------------------------------------------------------------------

local function peak_mebibytes()
  local file = io.open("/proc/self/status")
  local kilobytes = file and file:read("*a"):match("VmHWM:%s*(%d+)")
  if file then file:close() end
  return kilobytes and ("%9.0f"):format(kilobytes / 1024) or "        -"
end

local function median(times)
  table.sort(times)
  local n = #times
  return n % 2 == 1 and times[(n + 1) / 2] or (times[n / 2] + times[n / 2 + 1]) / 2
end

local modes = {
  compiled = function(step) return ct.trace(step, { wait = true }) end,
  replayed = function(step) return ct.trace(step, { compile = false }) end,
  eager = function(step) return step end,
}

local function run(name, seconds, mode)
  ct.manual_seed(0)
  local model, x, y, optimizer = workloads[name]()
  local labels = y:flatten()
  local step = modes[mode](function(inputs)
    optimizer:zero_grad()
    local out = model(inputs)
    local loss = F.cross_entropy(out:reshape(-1, out.shape[out.ndim]), labels)
    loss:backward()
    optimizer:step()
    return loss
  end)
  for _ = 1, 5 do step(x) end
  local times, loss, stop = {}, nil, core.clock() + seconds
  while core.clock() < stop or #times < 5 do
    local start = core.clock()
    loss = step(x)
    times[#times + 1] = core.clock() - start
  end
  local m = median(times)
  print(("%-8s %10.4f %11.1f %11.1f %s %.4f"):format(name, m * 1e3, 1 / m, #x / m, peak_mebibytes(), loss:item()))
end

local function quote(word) return "'" .. word:gsub("'", "'\\''") .. "'" end

local function usage(problem)
  local text = "workloads: %s\nusage: workloads.lua [--seconds N] [--mode compiled|replayed|eager] [%s ...]\n"
  io.stderr:write(text:format(problem, table.concat(order, "|")))
  os.exit(2)
end

local seconds, mode, names, i = 5, "compiled", {}, 1
while arg[i] do
  if arg[i] == "--seconds" then
    seconds = tonumber(arg[i + 1]) or usage("--seconds takes a number")
    i = i + 1
  elseif arg[i] == "--mode" then
    mode = modes[arg[i + 1]] and arg[i + 1] or usage("--mode takes compiled, replayed or eager")
    i = i + 1
  elseif workloads[arg[i]] then
    names[#names + 1] = arg[i]
  else
    usage(("there is no workload '%s'"):format(arg[i]))
  end
  i = i + 1
end

if #names == 1 then
  run(names[1], seconds, mode)
else
  local program, lowest = {}, 0
  while arg[lowest - 1] do lowest = lowest - 1 end
  for k = lowest, 0 do program[#program + 1] = quote(arg[k]) end
  for _, name in ipairs(#names > 0 and names or order) do
    local ok = os.execute(("%s --seconds %g --mode %s %s"):format(table.concat(program, " "), seconds, mode, name))
    if ok ~= true and ok ~= 0 then os.exit(1) end
  end
end
