-- profiler.lua: what an executor measures. An activity has a name, update(batch_size) after each step, and compute(),
-- whose value is the profiler's field of that name. The executor always measures total_samples, rate (samples a
-- second since it was last read, smoothed), global_rate (since the start); all of rate_tracker's are there too.
--
--     local Batches = ct.utils.profiler.Activity:extend("batches")
--     function Batches:init() self.n = 0 end
--     function Batches:update() self.n = self.n + 1 end
--     function Batches:compute() return self.n end

local core = require "ctrain.core"
local options = require "ctrain.options"

local fail = options.fail

local profiler = {}

local classes = setmetatable({}, { __mode = "k" })

---@class profiler.Activity
---@field name string
local Activity = {}

---A new class of activities.
---@param name string what the profiler calls its value
function Activity.extend(_, name)
  if type(name) ~= "string" or name == "" then
    fail("Activity:extend: an activity needs a name, not %s", options.describe_value(name))
  end
  local class = { name = name }
  class.__index = class
  classes[class] = true
  return setmetatable(class, {
    __index = Activity,
    __call = function(_, ...)
      local self = setmetatable({}, class)
      self:init(...)
      return self
    end,
  })
end

function Activity.init(_) end

---Called after each step with the number of samples of its batch.
function Activity.update(_, _) end

---The value that the profiler shows.
function Activity.compute(_) end

profiler.Activity = Activity

-- ---- The rate tracker ------------------------------------------------------------------------------------

local smoothing = 0.6

---@class profiler.RateTracker
---@field total_samples integer
---@field total_time number seconds
---@field rate number samples a second since it was last read; reading starts the next window
---@field global_rate number samples a second
local fields = {
  total_samples = function(self) return self._samples end,
  total_time = function(self) return core.clock() - self._start end,
  rate = function(self)
    local now = core.clock()
    local elapsed, samples = now - self._window_start, self._samples - self._window_samples
    if samples == 0 or elapsed <= 0 then return self._rate or 0 end
    local rate = samples / elapsed
    self._rate = self._rate and smoothing * rate + (1 - smoothing) * self._rate or rate
    self._window_start, self._window_samples = now, self._samples
    return self._rate
  end,
  global_rate = function(self)
    local elapsed = core.clock() - self._start
    return elapsed > 0 and self._samples / elapsed or 0
  end,
}
fields.samples_per_sec = fields.global_rate

local methods = {}

---Starts the clock anew.
function methods.reset(self)
  local now = core.clock()
  self._samples, self._start, self._window_start, self._window_samples, self._rate = 0, now, now, 0, nil
end

function methods.update(self, batch_size) self._samples = self._samples + batch_size end

local rate_metatable = {
  __index = function(self, key)
    if fields[key] then return fields[key](self) end
    return methods[key]
  end,
  __name = "RateTracker",
}

local function new_rate_tracker()
  local self = setmetatable({}, rate_metatable)
  self:reset()
  return self
end

-- ---- The profiler of an executor -------------------------------------------------------------------------

local metatable = {
  __index = function(self, key)
    if fields[key] then return fields[key](self.rate_tracker) end
    local activity = self.activities[key]
    if activity then return activity:compute() end
    local names = { "rate_tracker" }
    for name in pairs(fields) do names[#names + 1] = name end
    for name in pairs(self.activities) do names[#names + 1] = name end
    local near = options.nearest(tostring(key), names)
    fail("profiler has no field '%s'%s", tostring(key), near and " (did you mean '" .. near .. "'?)" or "")
  end,
  __name = "Profiler",
}

---@param list table? classes of activities
function profiler.new(list)
  local activities = {}
  if list ~= nil and (type(list) ~= "table" or getmetatable(list) ~= nil) then
    fail("DataExecutor: profiler_activities must be a list of activities, not %s", options.describe_value(list))
  end
  for i, class in ipairs(list or {}) do
    if type(class) ~= "table" or not classes[class] then
      fail("DataExecutor: profiler_activities[%d] must be a class of activities (Activity:extend), not %s", i,
        options.describe_value(class))
    end
    if fields[class.name] or class.name == "rate_tracker" then
      fail("DataExecutor: the activity name '%s' is the profiler's own", class.name)
    elseif activities[class.name] then
      fail("DataExecutor: two activities are called '%s'", class.name)
    end
    activities[class.name] = class()
  end
  return setmetatable({ rate_tracker = new_rate_tracker(), activities = activities }, metatable)
end

---Tells a profiler of a finished step.
function profiler.step(self, batch_size)
  self.rate_tracker:update(batch_size)
  for _, activity in pairs(self.activities) do activity:update(batch_size) end
end

return profiler
