-- Executors and closures in detail: step -1, nesting, loops that are left, checkpoint and activation steps, what is
-- measured and shown. Scripts with a backend run in processes of their own: a backend is for a whole process.
local core = require "ctrain.core"
local ct = require "ctrain"
local process = require "spec.support.process"

local data = ct.utils.data

local function message_of(fn, ...)
  local ok, message = pcall(fn, ...)
  assert.is_false(ok, "an error was expected")
  return tostring(message)
end

local function has(text, ...)
  for _, word in ipairs { ... } do assert.is_truthy(text:find(word, 1, true), text) end
end

-- A DataLoader whose batches hold their number; `size` samples each.
local function counting(n, size)
  return data.DataLoader(function()
    local i = 0
    return function()
      i = i + 1
      if n == nil or i <= n then return { x = ct.full({ size or 1 }, i) } end
    end
  end)
end

local prelude = [[
local ct = require "ctrain"
ct.backend("CPU")
local data = ct.utils.data
local function loader(n)
  return data.DataLoader(function()
    local i = 0
    return function()
      i = i + 1
      if i <= n then return { x = ct.full({ 1 }, i) } end
    end
  end)
end
local function number(t) return math.floor(t:sum():item()) end
]]

local function run(body)
  local result = process.lua(prelude .. body)
  assert.equal(0, result.code, result.err)
  return (result.out:gsub("\n", " ")), result.err
end

describe("a step closure", function()
  it("called before the loop runs before the first batch is fetched", function()
    assert.equal("fetch-before early 7 fetch body ", run [[
local early = ct.step_closure(function(v) print("early", v) end)
local source = data.DataLoader(function()
  return function() print("fetch") return { ct.ones(1) } end
end)
print("fetch-before")
early(7)
for _ in data.DataExecutor(source, { num_steps = 1 }) do print("body") end]]:gsub("\t", " "))
  end)

  it("without a backend runs at once", function()
    local result = process.lua [[
local ct = require "ctrain"
local show = ct.step_closure(function(t) print(t:item()) end)
show(ct.full({}, 3))
print "after"]]
    assert.equal(0, result.code, result.err)
    assert.is_truthy(result.out:find("^3%S*\nafter\n$"), result.out)
  end)

  it("gets detached copies in the same nesting, and other values as they are", function()
    assert.equal("false 1 2 text nil true ", (run [[
local p = ct.ones(1):requires_grad_(true)
local key = {}
local show = ct.step_closure(function(nested, text, nothing, same)
  print(nested.a.requires_grad, number(nested.a), number(nested.list[1]), text, nothing, same)
end)
for batch in data.DataExecutor(loader(1), { num_steps = 1 }) do
  local y = p * 2
  show({ a = p * 1, list = { y } }, "text", nil, true)
end]]:gsub("\t", " ")))
  end)

  it("returns nothing", function()
    assert.equal("0 ", run [[
local show = ct.step_closure(function() return 5 end)
for _ in data.DataExecutor(loader(1), { num_steps = 1 }) do print(select("#", show())) end]])
  end)

  it("called by a closure runs at the end of the next step", function()
    assert.equal("step 1 outer 1 step 2 inner 1 outer 2 ", (run [[
local inner = ct.step_closure(function(n) print("inner", n) end)
local outer = ct.step_closure(function(n) print("outer", n) inner(n) end)
local n = 0
for _ in data.DataExecutor(loader(2), { num_steps = 2 }) do
  n = n + 1
  print("step", n)
  outer(n)
end]]:gsub("\t", " ")))
  end)

  it("of an inner executor runs in the inner steps, of the outer one at the end of its own", function()
    assert.equal("inner 1 inner 2 outer 1 inner 1 inner 2 outer 2 ", (run [[
local outer = ct.step_closure(function(t) print("outer", number(t)) end)
local inner = ct.step_closure(function(t) print("inner", number(t)) end)
for batch in data.DataExecutor(loader(2), { num_steps = 2 }) do
  outer(batch.x)
  for other in data.DataExecutor(loader(2), { num_steps = 2 }) do inner(other.x) end
end]]:gsub("\t", " ")))
  end)

  it("queued in a traced body repeats at every step, ahead of nothing that was called before it", function()
    assert.equal("before 1 traced 2 after 1 before 2 traced 4 after 2 before 3 traced 6 after 3 ", (run [[
local before = ct.step_closure(function(t) print("before", number(t)) end)
local traced = ct.step_closure(function(t) print("traced", number(t)) end)
local after = ct.step_closure(function(t) print("after", number(t)) end)
local step = ct.trace(function(x) traced(x * 2) end)
for batch in data.DataExecutor(loader(3), { num_steps = 3 }) do
  before(batch.x)
  step(batch.x)
  after(batch.x)
end]]:gsub("\t", " ")))
  end)

  it("of a loop that is left by break never runs, which a warning says", function()
    local out, err = run [[
local show = ct.step_closure(function(n) print(n) end)
local n = 0
for _ in data.DataExecutor(loader(5), { num_steps = 5 }) do
  n = n + 1
  show(n)
  if n == 2 then break end
end
print "second"
for _ in data.DataExecutor(loader(1), { num_steps = 1 }) do show(9) end]]
    assert.equal("1 second 9 ", out)
    has(err, "break at step 2", "1 of its step closures")
  end)

  it("refuses what is no function", function()
    has(message_of(ct.step_closure, 5), "step_closure", "function", "5")
    has(message_of(ct.checkpoint_closure), "checkpoint_closure", "nil")
  end)
end)

describe("a checkpoint closure", function()
  it("runs at the steps of a Schedule, which count from 0, and at no other", function()
    assert.equal("2 5 ", run [[
local save = ct.checkpoint_closure(function(n) print(n) end)
local Range = data.Schedule.Range
local n = 0
local steps = data.Schedule { Range(1, 2), Range(4, 5) }
for _ in data.DataExecutor(loader(6), { num_steps = 6, checkpoint_steps = steps }) do
  n = n + 1
  save(n)
end]])
  end)

  it("without checkpoint steps never runs in the loop", function()
    assert.equal("", run [[
local save = ct.checkpoint_closure(function(n) print(n) end)
for _ in data.DataExecutor(loader(3), { num_steps = 3 }) do save(1) end]])
  end)

  it("outside of a run is an error", function()
    local result = process.lua [[
local ct = require "ctrain"
ct.checkpoint_closure(function() end)()]]
    assert.equal(1, result.code)
    has(result.err, "outside of an execution context")
  end)

  it("saves weights of its step that a later run continues from", function()
    assert.equal("2 4 4 ", run [[
local path = os.tmpname()
local weight = ct.zeros(1)
local save = ct.checkpoint_closure(function(w)
  print(number(w))
  ct.save({ w = w }, path)
end)
for batch in data.DataExecutor(loader(4), { num_steps = 4, checkpoint_steps = 2 }) do
  weight:add_(1)
  save(weight)
end
print(number(ct.load(path).w))
os.remove(path)]])
  end)
end)

describe("an executor", function()
  it("reduces activation steps so that they meet the checkpoint steps, and says so", function()
    local out, err = run [[
local a = data.DataExecutor(loader(12), { num_steps = 12, activation_steps = 4, checkpoint_steps = 6 })
local b = data.DataExecutor(loader(12), { num_steps = 12, activation_steps = 3, checkpoint_steps = 6 })
local c = data.DataExecutor(loader(12), { num_steps = 2, activation_steps = 50 })
print(a.activation_steps, b.activation_steps, c.activation_steps)]]
    assert.equal("2 3 2 ", (out:gsub("\t", " ")))
    has(err, "activation frequency was reduced from 4 to 2")
  end)

  it("goes on after an error in the loop's body with another executor", function()
    assert.equal("false true 1 2 ", (run [[
local show = ct.step_closure(function(t) print(number(t)) end)
local ok, message = pcall(function()
  for batch in data.DataExecutor(loader(2), { num_steps = 2 }) do
    show(batch.x)
    error("no ink")
  end
end)
print(ok, message:find("no ink", 1, true) ~= nil)
for batch in data.DataExecutor(loader(2), { num_steps = 2 }) do show(batch.x) end]]:gsub("\t", " ")))
  end)

  it("passes on what the loader raises, and is over", function()
    local executor = data.DataExecutor(data.DataLoader(function() error("no such shelf") end), { num_steps = 1 })
    has(message_of(function() for _ in executor do end end), "no such shelf") -- luacheck: ignore
    has(message_of(function() for _ in executor do end end), "only once") -- luacheck: ignore
  end)

  it("numbers its folder once it is iterated", function()
    local executor = data.DataExecutor(counting(1), { num_steps = 1 })
    has(message_of(function() return executor.artifact_dir end), "artifact_dir", "iterated")
    for _ in executor do assert.is_truthy(executor.artifact_dir:find("/executors/%d%d%d%d%d%d$")) end
  end)

  it("is at step -1 before its loop", function()
    local executor = data.DataExecutor(counting(2), { num_steps = 2 })
    assert.same({ -1, 0, false }, { executor.iteration, executor.user_iteration, executor.is_initial_step })
  end)

  it("refuses a batch without a tensor", function()
    local loader = data.DataLoader(function() return function() return { "words" } end end)
    local executor = data.DataExecutor(loader, { num_steps = 1 })
    has(message_of(function() for _ in executor do end end), "holds no tensor") -- luacheck: ignore
  end)

  it("refuses steps, options and fields that make no sense, by name", function()
    local loader = counting(2)
    for _, steps in ipairs { 0, -1, 2.5, 0 / 0, "many" } do
      has(message_of(data.DataExecutor, loader, { num_steps = steps }), "num_steps")
    end
    has(message_of(data.DataExecutor, loader, { num_step = 2 }), "'num_step'", "'num_steps'")
    has(message_of(data.DataExecutor, loader, { num_steps = 2, checkpoint_steps = "all" }), "checkpoint_steps", "'all'")
    has(message_of(data.DataExecutor, loader, { num_steps = 2, activation_steps = 0 }), "activation_steps", "0")
    has(message_of(data.DataExecutor, loader, { num_steps = 2, writer = 5 }), "writer", "5")
    local executor = data.DataExecutor(loader, { num_steps = 2 })
    has(message_of(function() return executor.iterations end), "'iterations'", "'iteration'")
    has(message_of(function() executor.num_steps = 3 end), "num_steps")
    has(message_of(executor.report, executor, { loss = "low" }), "loss", "'low'")
  end)
end)

-- A clock that stands still but for advance(seconds), for what is measured and shown.
local function with_clock(fn)
  local real, now = core.clock, 100
  core.clock = function() return now end
  local ok, problem = pcall(fn, function(seconds) now = now + seconds end)
  core.clock = real
  if not ok then error(problem, 0) end
end

-- What is written to standard error while fn runs, on a terminal or not.
local function written(terminal, fn)
  local real, is_terminal, parts = io.stderr, core.is_terminal, {}
  io.stderr = { write = function(_, text) parts[#parts + 1] = text end, flush = function() end } -- luacheck: ignore
  core.is_terminal = function() return terminal end
  local ok, problem = pcall(with_clock, fn)
  io.stderr, core.is_terminal = real, is_terminal -- luacheck: ignore
  if not ok then error(problem, 0) end
  return table.concat(parts)
end

describe("the profiler", function()
  it("counts samples and gives their rate since the start", function()
    written(false, function(advance)
      local executor = data.DataExecutor(counting(nil, 8), { num_steps = 4 })
      for _ in executor do advance(2) end
      assert.equal(32, executor.profiler.total_samples)
      assert.equal(4, executor.profiler.global_rate)
      assert.equal(8, executor.profiler.rate_tracker.total_time)
    end)
  end)

  it("smooths the rate of each window with what was read before", function()
    written(false, function(advance)
      local executor = data.DataExecutor(counting(nil, 10), { num_steps = 3 })
      local rates, seconds = {}, { 1, 2, 5 }
      for _ in executor do
        advance(table.remove(seconds, 1))
        if executor.iteration > 0 then rates[#rates + 1] = executor.profiler.rate end
      end
      -- 10 samples in 1 s and the 2 s after it; then 10 in 5 s, of which 0.6 counts
      assert.is_true(math.abs(rates[1] - 10 / 3) < 1e-12)
      assert.is_true(math.abs(rates[2] - (0.6 * 10 / 5 + 0.4 * 10 / 3)) < 1e-12)
    end)
  end)

  it("takes activities of one's own", function()
    local Largest = ct.utils.profiler.Activity:extend("largest")
    function Largest:init() self.most = 0 end
    function Largest:update(size) self.most = math.max(self.most, size) end
    function Largest:compute() return self.most end
    local executor = data.DataExecutor(counting(nil, 6), { num_steps = 2, profiler_activities = { Largest } })
    for _ in executor do end -- luacheck: ignore
    assert.equal(6, executor.profiler.largest)
    has(message_of(function() return executor.profiler.larges end), "'larges'", "'largest'")
  end)

  it("refuses activities without a name, twice, or with a name of its own", function()
    local Activity = ct.utils.profiler.Activity
    has(message_of(Activity.extend, Activity, ""), "name")
    local A = Activity:extend("a")
    has(message_of(data.DataExecutor, counting(1), { num_steps = 1, profiler_activities = { A, A } }), "'a'")
    local rate = Activity:extend("rate")
    has(message_of(data.DataExecutor, counting(1), { num_steps = 1, profiler_activities = { rate } }), "'rate'")
    has(message_of(data.DataExecutor, counting(1), { num_steps = 1, profiler_activities = { 5 } }), "[1]", "5")
  end)
end)

describe("progress", function()
  local function training(steps, seconds)
    return function(advance)
      local executor = data.DataExecutor(counting(nil, 4), { num_steps = steps })
      for _ in executor do
        advance(seconds)
        executor:report { loss = 0.5 * executor.user_iteration, accuracy = ct.full({}, 0.25) }
      end
    end
  end

  it("is a line at each tenth where there is no terminal, with values, rate and the time that is left", function()
    local text = written(false, training(20, 1))
    local lines = {}
    for line in text:gmatch("[^\n]+") do lines[#lines + 1] = line end
    assert.equal(10, #lines)
    assert.equal("step 2/20  accuracy 0.2500  loss 1.0000  4 samples/s  0:18 left", lines[1])
    assert.equal("step 20/20  accuracy 0.2500  loss 10.0000  4 samples/s  20.0 s", lines[10])
  end)

  it("is one bar that is drawn over on a terminal, and left by a new line", function()
    local text = written(true, training(4, 1))
    has(text, "\r 25% ", "1/4", "\r100% ", "4/4", "\27[K")
    assert.equal("\n", text:sub(-1))
    assert.equal(1, select(2, text:gsub("\n", "")))
  end)

  it("of a run of a moment is nothing", function()
    assert.equal("", written(false, training(5, 0.001)))
    assert.equal("", written(true, training(5, 0.001)))
  end)

  it("writes hours as such", function()
    has(written(false, training(10, 3600)), "9:00:00 left")
  end)
end)
