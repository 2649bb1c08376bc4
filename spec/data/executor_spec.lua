-- Loaders, executors, schedules and closures: order of events, numbers of steps, and what is refused.
local ct = require "ctrain"
local process = require "spec.support.process"

local data = ct.utils.data

-- A loader of n batches: the numbers of the samples, two in each.
local function counting(n)
  return function()
    local i = 0
    return {
      iter = function()
        i = 0
        return function()
          i = i + 1
          if i <= n then return { x = ct.tensor { 2 * i - 1, 2 * i } } end
        end
      end,
      len = function() return n end,
    }
  end
end

describe("a DataLoader", function()
  it("passes further arguments to its input function", function()
    local seen
    local loader = data.DataLoader(function(a, b)
      seen = { a, b }
      return counting(1)()
    end, 7, "seven")
    for _ in loader:iter() do end
    assert.same({ 7, "seven" }, seen)
  end)

  it("refuses what is no function", function()
    local ok, message = pcall(data.DataLoader, 5)
    assert.is_false(ok)
    assert.is_truthy(message:find("input_fn", 1, true), message)
  end)

  it("of a TensorDataset gives every sample once an epoch, the short last batch too", function()
    local set = data.TensorDataset(ct.arange(10):reshape(10, 1), ct.arange(10))
    local sizes, seen = {}, {}
    for batch in data.Loader(set, { batch_size = 4, shuffle = true, seed = 3 }):iter() do
      local labels = batch[2] or batch.y
      sizes[#sizes + 1] = #labels
      for _, v in ipairs(labels:totable()) do seen[#seen + 1] = tonumber(v) end
    end
    table.sort(seen)
    assert.same({ 4, 4, 2 }, sizes)
    assert.same({ 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 }, seen)
  end)

  it("drops the short last batch when asked to", function()
    local set = data.TensorDataset(ct.arange(10))
    assert.equal(2, data.Loader(set, { batch_size = 4, drop_last = true }):len())
  end)

  it("shuffles each epoch anew, and alike for the same seed", function()
    local set = data.TensorDataset(ct.arange(50))
    local function epoch(loader)
      local seen = {}
      for batch in loader:iter() do
        local t = ct.is_tensor(batch) and batch or batch[1]
        for _, v in ipairs(t:totable()) do seen[#seen + 1] = tonumber(v) end
      end
      return table.concat(seen, " ")
    end
    local a = data.Loader(set, { batch_size = 7, shuffle = true, seed = 5 })
    local b = data.Loader(set, { batch_size = 7, shuffle = true, seed = 5 })
    local first, second = epoch(a), epoch(a)
    assert.are_not.equal(first, second)
    assert.equal(first, epoch(b))
    assert.equal(second, epoch(b))
  end)
end)

describe("a DataExecutor", function()
  it("takes num_steps batches, starting a shorter loader again", function()
    local executor = data.DataExecutor(data.DataLoader(counting(3)), { num_steps = 7 })
    local first = {}
    for batch in executor do first[#first + 1] = batch.x[1]:item() end
    assert.same({ 1, 3, 5, 1, 3, 5, 1 }, first)
  end)

  it("takes the loader's own length by default", function()
    local n = 0
    for _ in data.DataExecutor(data.DataLoader(counting(4))) do n = n + 1 end
    assert.equal(4, n)
  end)

  it("fetches no batch beyond the last step", function()
    local fetched = 0
    local loader = data.DataLoader(function()
      return function()
        fetched = fetched + 1
        return { x = ct.zeros(1) }
      end
    end)
    for _ in data.DataExecutor(loader, { num_steps = 3 }) do end -- luacheck: ignore
    assert.equal(3, fetched)
  end)

  it("says its step from 0 and from 1, and which is the last", function()
    local executor = data.DataExecutor(data.DataLoader(counting(2)), { num_steps = 2 })
    local seen = {}
    for _ in executor do
      seen[#seen + 1] = { executor.iteration, executor.user_iteration, executor.is_initial_step,
        executor.on_final_iteration }
    end
    assert.same({ { 0, 1, true, false }, { 1, 2, false, true } }, seen)
  end)

  it("names a loader that gives nothing", function()
    local executor = data.DataExecutor(data.DataLoader(counting(0)), { num_steps = 1 })
    local ok, message = pcall(function() for _ in executor do end end) -- luacheck: ignore
    assert.is_false(ok)
    assert.is_truthy(message:find("did not return any values", 1, true), message)
  end)

  it("refuses a loader that is not wrapped, no steps, and a second run", function()
    assert.has_error(function() data.DataExecutor(counting(1)) end)
    assert.has_error(function() data.DataExecutor(data.DataLoader(counting(1)), { num_steps = 0 }) end)
    local executor = data.DataExecutor(data.DataLoader(counting(1)))
    for _ in executor do end -- luacheck: ignore
    assert.has_error(function() for _ in executor do end end) -- luacheck: ignore
  end)

  it("counts samples, not batches", function()
    local executor = data.DataExecutor(data.DataLoader(counting(3)), { num_steps = 3 })
    for _ in executor do end -- luacheck: ignore
    assert.equal(6, executor.profiler.rate_tracker.total_samples)
  end)
end)

describe("a Schedule", function()
  it("matches its ranges: the end is out, and in with include_last", function()
    local Range = data.Schedule.Range
    local function matches(range, n)
      local list = {}
      for i = 0, n do if range:match(i) then list[#list + 1] = i end end
      return list
    end
    assert.same({ 2, 5, 8 }, matches(Range(2, 10, 3), 12))
    assert.same({ 2, 5, 8, 9 }, matches(Range(2, 10, 3, true), 12))
    assert.same({ 0, 4, 6 }, matches(data.Schedule { Range(0, 1), Range(4, 8, 2) }, 12))
  end)

  it("refuses ranges that overlap, run backwards or count in fractions", function()
    local Range = data.Schedule.Range
    assert.has_error(function() data.Schedule { Range(0, 5), Range(3, 8) } end)
    assert.has_error(function() Range(5, 5) end)
    assert.has_error(function() Range(-1, 5) end)
    assert.has_error(function() Range(0, 5, 0.5) end)
  end)
end)

describe("closures", function()
  -- in a process of its own: a backend is for a whole process
  local function run(body)
    local result = process.lua([[
local ct = require "ctrain"
ct.backend("CPU", { artifact_dir = os.tmpname() .. ".d" })
local data = ct.utils.data
local function loader(n)
  return data.DataLoader(function()
    local i = 0
    return function()
      i = i + 1
      if i <= n then return { x = ct.tensor { i } } end
      i = 0
    end
  end)
end
]] .. body)
    assert.equal(0, result.code, result.err)
    return result.out
  end

  it("run at the end of their step, in the order of the calls, with the values of the step", function()
    assert.equal("body\na\t1\nb\t1\nbody\na\t2\nb\t2\n", run [[
local a = ct.step_closure(function(t) print("a", math.floor(t:item())) end)
local b = ct.step_closure(function(t) print("b", math.floor(t:item())) end)
local state = ct.zeros(1)
for batch in data.DataExecutor(loader(2), { num_steps = 2 }) do
  state:copy_(batch.x)
  a(state)
  state:copy_(batch.x)
  b(state)
  print("body")
  state:fill_(100)
end]])
  end)

  it("of checkpoints run at every n-th step and the last, and before the loop", function()
    assert.equal("0\n2\n4\n5\n", run [[
local step = 0
local save = ct.checkpoint_closure(function(s) print(s) end)
save(0)
for _ in data.DataExecutor(loader(5), { num_steps = 5, checkpoint_steps = 2 }) do
  step = step + 1
  save(step)
end]])
  end)

  it("called in a traced body see the values of each step", function()
    assert.equal("1\n4\n9\n16\n", run [[
local show = ct.step_closure(function(t) print(math.floor(t:item())) end)
local step = ct.trace(function(batch)
  local y = batch.x * batch.x
  show(y)
  return y
end)
for batch in data.DataExecutor(loader(4), { num_steps = 4 }) do step(batch) end]])
  end)

  it("that fail end the run with their message", function()
    local result = process.lua [[
local ct = require "ctrain"
ct.backend("CPU")
local bad = ct.step_closure(function() error("no more paper") end)
local data = ct.utils.data
for _ in data.DataExecutor(data.DataLoader(function()
  return function() return { x = ct.zeros(1) } end
end), { num_steps = 2 }) do bad() end]]
    assert.equal(1, result.code)
    assert.is_truthy(result.err:find("no more paper", 1, true), result.err)
  end)
end)

describe("the backend", function()
  it("is one for a process, and says so", function()
    local result = process.lua [[
local ct = require "ctrain"
print(ct.use_cs(), ct.current_torch_device(), ct.current_backend(false, false))
local b = ct.backend("cpu")
print(b.backend_type, b.is_cpu, ct.backend() == b)
print(pcall(ct.backend, "CPU"))
print(pcall(ct.backend, "GPU"))]]
    assert.equal(0, result.code, result.err)
    local lines = {}
    for line in result.out:gmatch("[^\n]+") do lines[#lines + 1] = line end
    assert.equal("false\tcpu\tnil", lines[1])
    assert.equal("CPU\ttrue\ttrue", lines[2])
    assert.is_truthy(lines[3]:find("^false"), lines[3])
    assert.is_truthy(lines[3]:lower():find("multiple backends", 1, true), lines[3])
  end)

  it("of kinds that this build lacks is refused plainly", function()
    for _, kind in ipairs { "GPU", "CSX", "TPU" } do
      local result = process.lua('local ct = require "ctrain" print(pcall(ct.backend, "' .. kind .. '"))')
      assert.is_truthy(result.out:find("^false"), kind)
      assert.is_truthy(result.out:find(kind, 1, true), result.out)
    end
  end)

  it("makes no folder when nothing is written", function()
    local folder = process.folder()
    local result = process.lua(('local ct = require "ctrain" ct.backend("CPU", { artifact_dir = %q })')
      :format(folder .. "/logs"))
    assert.equal(0, result.code, result.err)
    assert.is_nil(io.open(folder .. "/logs"))
    process.remove(folder)
  end)
end)
