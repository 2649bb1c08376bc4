-- Runs pieces of work again and again while every n-th allocation fails, for n = 1, 2, 3 ... A failure must be a Lua
-- error that speaks of memory; afterwards the same work must succeed, and no tensor may be left behind.
-- For a build with -DCT_FAULTS: ctrain spec/support/faults.lua
local ct = require "ctrain"
local core = require "ctrain.core"
local F = ct.nn.functional

assert(core.fail_every, "this build does not inject faults")

local work = {}

function work.elements()
  local x = ct.arange(24):to("float32"):reshape(2, 3, 4)
  local y = x:transpose(1, 3):contiguous() + x:transpose(1, 3)
  y[{ {}, 2 }] = 0
  y:mul_(2)
  assert(y:sum():item() == 736)
  assert(ct.cat({ x, x }, 2):sum({ 1, 3 }):totable()[1] == 60)
end

function work.selection()
  local x = ct.tensor { { 3, 1, 2 }, { 9, 7, 8 } }
  local sorted, order = x:sort(2)
  assert(sorted:totable()[2][1] == 7 and order:totable()[1][1] == 1)
  assert(x:gather(2, order):equal(sorted))
  assert(x:gt(2):nonzero().shape[1] == 4)
  assert(x:index_select(1, ct.tensor({ 1, 1 }, { dtype = "int64" })):sum():item() == 48)
end

function work.products()
  local a, b = ct.ones(3, 40, 50), ct.ones(50, 60)
  assert(a:matmul(b):sum():item() == 3 * 40 * 60 * 50)
  assert(ct.einsum("bij,jk->ki", a, b).shape[1] == 60)
  assert(ct.rand(200, 200):matmul(ct.rand(200, 200)).shape[2] == 200)
end

function work.gradients()
  local x = ct.full({ 3 }, 2, { requires_grad = true })
  local y = (x * x * x):sum()
  local g = ct.grad(y, x, { create_graph = true })
  assert(ct.grad(g:sum(), x):totable()[1] == 12)
  x:exp():log():sum():backward()
  assert(math.abs(x.grad:sum():item() - 3) < 1e-5)
end

function work.random()
  ct.manual_seed(3)
  local x = ct.randn(100)
  ct.manual_seed(3)
  assert(ct.randn(100):equal(x))
  assert(ct.randperm(10):sum():item() == 45)
end

function work.training()
  ct.manual_seed(1)
  local model = ct.nn.Sequential(ct.nn.Linear(4, 8), ct.nn.ReLU(), ct.nn.LayerNorm(8), ct.nn.Linear(8, 3))
  local optimizer = ct.optim.AdamW(model:parameters(), { lr = 0.05 })
  local labels = ct.tensor({ 0, 1, 2, 1 }, { dtype = "int64" })
  local first, last
  for _ = 1, 4 do
    local loss = F.cross_entropy(model(ct.eye(4)), labels)
    optimizer:zero_grad()
    loss:backward()
    optimizer:step()
    last = loss:item()
    first = first or last
  end
  assert(last < first)
end

function work.traced_steps()
  ct.manual_seed(1)
  local model = ct.nn.Linear(4, 3)
  local optimizer = ct.optim.SGD(model:parameters(), { lr = 0.1, momentum = 0.9 })
  local step = ct.trace(function(x, y)
    local loss = F.mse_loss(model(x), y)
    optimizer:zero_grad()
    loss:backward()
    optimizer:step()
    return loss
  end, { compile = false })
  local x, y = ct.eye(4), ct.ones(4, 3)
  local first, last
  for _ = 1, 5 do
    last = step(x, y):item()
    first = first or last
  end
  assert(last < first)
end

local path = os.tmpname()

function work.files()
  local model = ct.nn.Linear(4, 3)
  ct.save({ model = model:state_dict(), epoch = 3, names = { "a", "b" } }, path)
  local state = ct.load(path)
  assert(state.epoch == 3)
  local other = ct.nn.Linear(4, 3)
  other:load_state_dict(state.model)
  assert(other.weight:equal(model.weight))
end

function work.printing()
  assert(#tostring(ct.rand(20, 20)) > 100)
  assert(#tostring(ct.nn.Sequential(ct.nn.Linear(2, 2))) > 10)
end

local function attempt(name, every)
  core.fail_every(every)
  local ok, problem = pcall(work[name])
  core.fail_every(0)
  if ok then return true end
  if type(problem) ~= "string" or not problem:find("memory", 1, true) then
    error(("%s, every %d: %s"):format(name, every, tostring(problem)), 0)
  end
  return false
end

local names = {}
for name in pairs(work) do names[#names + 1] = name end
table.sort(names)
local only = arg[1]

local wrong = 0
for _, name in ipairs(names) do
  if only == nil or only == name then
    assert(attempt(name, 0))
    collectgarbage()
    collectgarbage()
    local before, failures, every = ct.live_bytes(), 0, 1
    -- up to a run that no failure reaches, or that none stops
    while every < 100000 do
      local ok, good = pcall(attempt, name, every)
      if not ok then
        wrong = wrong + 1
        io.stderr:write(good, "\n")
      elseif not good then
        failures = failures + 1
      elseif every > 20 then
        break
      end
      every = every < 100 and every + 1 or math.floor(every * 1.1)
    end
    attempt(name, 0)
    collectgarbage()
    collectgarbage()
    local after = ct.live_bytes()
    print(("%-14s %d of the runs failed with an error"):format(name, failures))
    if after > before then
      wrong = wrong + 1
      io.stderr:write(("%s: %d bytes of tensors are left behind\n"):format(name, after - before))
    end
  end
end
os.remove(path)
os.exit(wrong == 0, true)
