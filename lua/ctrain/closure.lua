-- closure.lua: step closures. A call of one is put off to the end of the step, where the tensors it was given have
-- values; its arguments are those of the time of the call. This file keeps the runs (what an executor opens and
-- ends) and their queues, and what a traced step being recorded has queued.
--
-- Calls run in the order they were made. One made inside a traced body is repeated at every step, with that step's
-- values. One made by a running closure runs at the end of the next step. Without a backend nothing is put off.

local core = require "ctrain.core"
local log = require "ctrain.log"
local options = require "ctrain.options"

local fail, is_tensor = options.fail, options.is_tensor

local closure = {}

-- Runs that are open, outermost first. A run: queue, step, is_checkpoint_step(step), is_live().
local runs = {}
-- Calls made with a backend before any run: the next run makes them first, at step -1.
local waiting = {}
-- The calls of the traced body being recorded, or nil.
local recording
local has_backend = function() return false end
-- Whether steps are only looked at, so that no closure has values to run with.
local is_dry = function() return false end

-- ---- Values ----------------------------------------------------------------------------------------------

---A copy of a nested table with map(tensor) in place of each tensor.
---@param map fun(tensor: tensor): any
function closure.map(value, map)
  if is_tensor(value) then return map(value) end
  if type(value) ~= "table" or getmetatable(value) ~= nil then return value end
  local result = {}
  for key, item in next, value do result[key] = closure.map(item, map) end
  return result
end

local unpack = table.unpack or unpack -- luacheck: ignore

local function pack(...)
  return { n = select("#", ...), ... }
end

local function map_all(arguments, map)
  local result = { n = arguments.n }
  for i = 1, arguments.n do result[i] = closure.map(arguments[i], map) end
  return result
end

local function copy(tensor) return tensor:detach():clone() end

-- ---- Calls -----------------------------------------------------------------------------------------------

---Makes a call: { fn, arguments, checkpoint }.
---@param run table? the run whose step has ended; nil: none
local function perform(call, run)
  if is_dry() then return end
  if call.checkpoint then
    if not run then
      fail("checkpoint_closure: cannot fetch a checkpoint outside of an execution context (an executor's loop)")
    end
    if run.step >= 0 and not run.is_checkpoint_step(run.step) then
      if log.wants("closures") then
        core.log("debug", ("checkpoint_closure: step %d is no checkpoint step"):format(run.step + 1))
      end
      return
    end
  end
  local begin = log.begin()
  call.fn(unpack(call.arguments, 1, call.arguments.n))
  log.finish(call.checkpoint and "checkpoint closure" or "step closure", "closure", begin)
end

---Makes the calls queued in a run, in order; what they queue stays for the next time.
function closure.flush(run)
  local queue = run.queue
  run.queue = {}
  for i = 1, #queue do perform(queue[i], run) end
end

---Queues a call with arguments that are copies already; makes it at once where nothing puts it off.
function closure.queue(call)
  local run = runs[#runs]
  if run then
    run.queue[#run.queue + 1] = call
  elseif call.repeating then
    perform(call)
  elseif has_backend() then
    waiting[#waiting + 1] = call
  else
    perform(call)
  end
end

local function wrap(name, fn, checkpoint)
  if type(fn) ~= "function" and not (type(fn) == "table" and getmetatable(fn) and getmetatable(fn).__call) then
    fail("ct.%s: closure must be a function, not %s", name, options.describe_value(fn))
  end
  return function(...)
    local call = { fn = fn, arguments = pack(...), checkpoint = checkpoint }
    if recording then
      call.repeating = true
      recording[#recording + 1] = call
    elseif not is_dry() then
      call.arguments = map_all(call.arguments, copy)
      closure.queue(call)
    end
  end
end

---A function that runs at the end of the step in which it is called, when tensors have values. It receives detached
---copies of its tensor arguments as they were at the call, and returns nothing.
---@param fn function
---@return function
function closure.step_closure(fn) return wrap("step_closure", fn, false) end

---A step closure that runs only at checkpoint steps (DataExecutor's checkpoint_steps), and before the first step.
---@param fn function
---@return function
function closure.checkpoint_closure(fn) return wrap("checkpoint_closure", fn, true) end

-- ---- Recording -------------------------------------------------------------------------------------------

---Starts to collect the calls that a traced body makes.
function closure.begin_recording() recording = {} end

---Ends it.
---@return table[] calls each with fn, arguments, checkpoint
function closure.finish_recording()
  local calls = recording or {}
  recording = nil
  return calls
end

closure.map_all = map_all

-- ---- Runs ------------------------------------------------------------------------------------------------

-- Forgets runs that nobody will go on with.
local function drop_dead()
  while #runs > 0 and not runs[#runs].is_live() do
    local run = table.remove(runs)
    run.abandoned = true
    if #run.queue > 0 then
      core.log("warning", ("DataExecutor: an earlier loop was left by break at step %d; %d of its step closures never "
        .. "ran"):format(run.step + 1, #run.queue))
    end
  end
end

---Opens a run inside those that are still going on; it gets the calls that wait for one.
function closure.open(run)
  drop_dead()
  run.queue, waiting = waiting, {}
  runs[#runs + 1] = run
end

---Makes a run the innermost again, after runs inside it that were left.
function closure.resume(run)
  while runs[#runs] ~= run do
    if #runs == 0 then fail("DataExecutor: this loop was left, and cannot be gone on with") end
    runs[#runs].is_live = function() return false end
    drop_dead()
  end
end

---Ends a run.
function closure.close(run)
  for i = #runs, 1, -1 do
    if runs[i] == run then
      table.remove(runs, i)
      return
    end
  end
end

---@return table? run the innermost
function closure.current() return runs[#runs] end

---Tells how to ask whether there is a backend, and whether it only looks at steps.
function closure.set_backend_test(test, dry) has_backend, is_dry = test, dry end

-- What a loop left by break at the end of the script has queued is worth a word.
local function farewell()
  for _, run in ipairs(runs) do run.is_live = function() return false end end
  drop_dead()
end

if newproxy then -- luacheck: ignore
  closure.sentinel = newproxy(true) -- luacheck: ignore
  getmetatable(closure.sentinel).__gc = farewell
else
  closure.sentinel = setmetatable({}, { __gc = farewell })
end

return closure
