-- executor.lua: DataExecutor, one run over the batches of a DataLoader: `for batch in executor do ... end`.
--
-- In order: closures queued before the loop run at step -1; then for each step the batch, the loop's body, the
-- profiler, the step's closures. A loader that ends early is started again; no batch is fetched beyond the last
-- step. A loop left by `break` skips the end of its step: its closures never run, which the next executor, or
-- the end of the script, says.

local backend = require "ctrain.backend"
local closure = require "ctrain.closure"
local core = require "ctrain.core"
local loader = require "ctrain.data.loader"
local log = require "ctrain.log"
local options = require "ctrain.options"
local profiler = require "ctrain.data.profiler"
local progress = require "ctrain.data.progress"
local Schedule = require "ctrain.data.schedule"

local fail, is_tensor = options.fail, options.is_tensor

local executor = {}

local where = "DataExecutor"

-- ---- Batches ---------------------------------------------------------------------------------------------

-- Adds up the first extents of a batch's tensors: their least, their greatest, how many there are.
local function extents(value, found)
  if is_tensor(value) then
    local extent = value.ndim == 0 and 1 or #value
    found.least, found.most = math.min(found.least, extent), math.max(found.most, extent)
    found.tensors = found.tensors + 1
  elseif type(value) == "table" then
    for _, part in next, value do extents(part, found) end
  end
end

local function batch_size(self, batch)
  local found = { least = math.huge, most = 0, tensors = 0 }
  extents(batch, found)
  if found.tensors == 0 then fail("%s: a batch holds no tensor, so its size is unknown", where) end
  if found.least ~= found.most and not self.warned then
    self.warned = true
    core.log("warning", ("%s: the tensors of a batch have first extents from %d to %d; the first is taken as its size")
      :format(where, found.least, found.most))
  end
  return found.most
end

local function next_batch(self)
  local begin = log.begin()
  local batch = self.fetch and self.fetch()
  if batch == nil then
    self.fetch = self.dataloader:iter()
    batch = self.fetch()
  end
  if batch == nil then
    fail("%s: iterating the dataloader did not return any values; is the dataset empty, or smaller than batch_size "
      .. "with drop_last?", where)
  end
  log.finish("batch", "loader", begin)
  return batch
end

-- ---- Steps at which something happens --------------------------------------------------------------------

local function greatest_divisor(a, b)
  while b > 0 do a, b = b, a % b end
  return a
end

local function check_activation_steps(self, given)
  local steps = math.min(options.integer(where, "activation_steps", given, 1), self.num_steps)
  local common = steps
  if type(self.checkpoint_steps) == "number" then
    common = greatest_divisor(greatest_divisor(steps, self.checkpoint_steps), self.num_steps)
  elseif self.checkpoint_steps then
    for step in self.checkpoint_steps:iter() do
      if step >= self.num_steps or common == 1 then break end
      common = greatest_divisor(common, step + 1)
    end
  end
  if common ~= steps then
    core.log("warning", ("%s: activation frequency was reduced from %d to %d, so that it meets the checkpoint steps")
      :format(where, steps, common))
  end
  return common
end

local function check_checkpoint_steps(given)
  if given == nil or given == 0 then return nil end
  if type(given) == "table" and getmetatable(given) == Schedule then return given end
  if type(given) == "table" and getmetatable(given) == Schedule.Range then return Schedule { given } end
  if type(given) ~= "number" then
    fail("%s: checkpoint_steps must be a whole number, a Schedule or nil, not %s", where, options.describe_value(given))
  end
  return options.integer(where, "checkpoint_steps", given, 0)
end

local function is_checkpoint_step(self, step)
  local steps = self.checkpoint_steps
  if not steps then return false end
  if type(steps) == "table" then return steps:match(step) end
  return (step + 1) % steps == 0 or step + 1 == self.num_steps
end

-- ---- The loop --------------------------------------------------------------------------------------------

-- Whether a `for ... in object` loop is going on in a function that is running.
local function in_loop(object)
  for level = 2, math.huge do
    if not debug.getinfo(level, "f") then return false end
    for i = 1, math.huge do
      local name, value = debug.getlocal(level, i)
      if not name then break end
      if rawequal(value, object) and name:sub(1, 4) == "(for" then return true end
    end
  end
end

local count = 0

local function begin(self)
  local object = self.object
  local is_for, thread = in_loop(object), coroutine.running()
  local run = { step = -1, executor = self }
  function run.is_checkpoint_step(step) return is_checkpoint_step(self, step) end
  function run.is_live() return not is_for or thread ~= coroutine.running() or in_loop(object) end
  count = count + 1
  self.number, self.run = count, run
  closure.open(run)
  closure.flush(run)
  run.step = 0
  self.profiler = profiler.new(self.activities)
  self.progress = progress.new(self.num_steps, function() return self.profiler.rate_tracker.global_rate end)
end

local function end_step(self)
  closure.resume(self.run)
  if not backend.dry_run() then profiler.step(self.profiler, self.size) end
  closure.flush(self.run)
  self.progress:update(self.run.step + 1)
  self.run.step = self.run.step + 1
end

local function finish(self)
  self.state = "done"
  if self.progress then self.progress:finish() end
  if self.run then closure.close(self.run) end
  self.fetch = nil
end

local function advance(self)
  if self.state == "new" then
    self.state = "running"
    begin(self)
  else
    end_step(self)
    if self.run.step == self.num_steps then
      finish(self)
      return nil
    end
  end
  local batch = next_batch(self)
  self.size = batch_size(self, batch)
  return batch
end

-- The iterator that a generic for calls.
local function iterate(self)
  local private = rawget(self, "_private")
  if private.state == "done" then
    fail("%s: an executor can be iterated only once; make another one", where)
  end
  local ok, batch = pcall(advance, private)
  if not ok then
    finish(private)
    error(batch, 0)
  end
  return batch
end

-- ---- The object ------------------------------------------------------------------------------------------

local fields = {
  num_steps = function(p) return p.num_steps end,
  iteration = function(p) return p.run and math.min(p.run.step, p.num_steps - 1) or -1 end,
  is_initial_step = function(p) return p.run ~= nil and p.run.step == 0 end,
  on_final_iteration = function(p) return p.run ~= nil and p.run.step >= p.num_steps - 1 end,
  profiler = function(p) return p.profiler end,
  writer = function(p) return p.writer end,
  dataloader = function(p) return p.dataloader end,
  activation_steps = function(p) return p.activation_steps end,
  checkpoint_steps = function(p) return p.checkpoint_steps end,
  artifact_dir = function(p)
    if not p.number then fail("%s: artifact_dir is there only once the executor is iterated", where) end
    return ("%s/executors/%06d"):format(backend.artifact_dir(), p.number)
  end,
}
fields.user_iteration = function(p) return fields.iteration(p) + 1 end

---@class data.DataExecutor
---@field iteration integer the step, from 0; -1 before the first
---@field user_iteration integer the step, from 1
---@field profiler table total_samples, rate, global_rate
---@field artifact_dir string
local methods = {}

---Shows values beside the progress: executor:report{loss = loss}, in a step closure.
---@param values table<string, number|tensor>
function methods:report(values)
  if type(values) ~= "table" then
    fail("%s:report: expected a table of numbers, not %s", where, options.describe_value(values))
  end
  local numbers = {}
  for name, value in pairs(values) do
    if is_tensor(value) then value = value:item() end
    if type(value) ~= "number" then
      fail("%s:report: %s must be a number, not %s", where, tostring(name), options.describe_value(value))
    end
    numbers[tostring(name)] = value
  end
  local bar = rawget(self, "_private").progress
  if bar then bar:report(numbers) end
end

---Ends a run whose loop was left.
function methods:close()
  local private = rawget(self, "_private")
  if private.state == "running" then finish(private) end
  private.state = "done"
end

local metatable = {
  __call = iterate,
  __index = function(self, key)
    if methods[key] then return methods[key] end
    if fields[key] then return fields[key](rawget(self, "_private")) end
    local names = {}
    for name in pairs(fields) do names[#names + 1] = name end
    local near = options.nearest(tostring(key), names)
    fail("%s: there is no field '%s'%s", where, tostring(key), near and " (did you mean '" .. near .. "'?)" or "")
  end,
  __newindex = function(_, key) fail("%s: the field '%s' cannot be set", where, tostring(key)) end,
  __name = "DataExecutor",
}

local read_arguments = options.signature(where, { "dataloader" },
  { "num_steps", "checkpoint_steps", "activation_steps", "profiler_activities", "writer" }, { activation_steps = 1 })

---One run over a DataLoader; one step of it with a backend that only compiles or validates.
---Options: num_steps (default: the loader's length), checkpoint_steps (nil: never; n: at n,
---2n, ... and at the last step; a Schedule), activation_steps, profiler_activities, writer.
---@return data.DataExecutor
function executor.DataExecutor(...)
  local o = read_arguments(...)
  if not loader.is_dataloader(o.dataloader) then
    fail("%s: dataloader was not wrapped in ct.utils.data.DataLoader: it is %s", where,
      options.describe_value(o.dataloader))
  end
  if o.writer ~= nil and not (type(o.writer) == "table" and type(o.writer.add_scalar) == "function") then
    fail("%s: writer must be an object with add_scalar(name, value, step), not %s", where,
      options.describe_value(o.writer))
  end
  local steps = o.num_steps
  if steps == nil then steps = o.dataloader:len() end
  if type(steps) ~= "number" or steps ~= math.floor(steps) or steps < 1 then
    fail("%s: expected num_steps >= 1, a whole number, not %s%s", where, options.describe_value(steps),
      o.num_steps == nil and " (the loader's length)" or "")
  end
  if backend.dry_run() then steps = 1 end
  local private = {
    dataloader = o.dataloader, num_steps = math.floor(steps), activities = o.profiler_activities, writer = o.writer,
    checkpoint_steps = check_checkpoint_steps(o.checkpoint_steps), state = "new",
  }
  private.activation_steps = check_activation_steps(private, o.activation_steps)
  profiler.new(o.profiler_activities) -- refuses what is no list of activities
  private.object = setmetatable({ _private = private }, metatable)
  return private.object
end

return executor
