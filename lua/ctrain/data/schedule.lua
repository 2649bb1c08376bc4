-- schedule.lua: Schedule, which steps something happens at, as intervals of zero-based steps. Schedule.Range(start,
-- end, step, include_last): start, start + step, ... below end, and end - 1 too where include_last says so.

local options = require "ctrain.options"

local fail = options.fail

---@class Schedule.Range
---@field start integer
---@field final_step integer the last step that matches
local Range = {}
Range.__index = Range
Range.__name = "Schedule.Range"

local range_arguments = options.signature("Schedule.Range", { "start", "end" }, { "step", "include_last" },
  { step = 1, include_last = false })

local function new_range(_, ...)
  local o = range_arguments(...)
  local where = "Schedule.Range"
  local self = setmetatable({
    start = options.integer(where, "start", o.start, 0), stop = options.integer(where, "end", o["end"]),
    step = options.integer(where, "step", o.step, 1),
    include_last = options.boolean(where, "include_last", o.include_last),
  }, Range)
  if self.stop <= self.start then fail("%s: end is %d; expected more than start, %d", where, self.stop, self.start) end
  self.count = math.floor((self.stop - 1 - self.start) / self.step) + 1
  self.final_step = self.start + (self.count - 1) * self.step
  if self.include_last and self.final_step < self.stop - 1 then
    self.count, self.final_step = self.count + 1, self.stop - 1
  end
  return self
end

---Whether something happens at the zero-based step.
---@return boolean
function Range:match(step)
  if step < self.start or step >= self.stop then return false end
  return (step - self.start) % self.step == 0 or step == self.final_step
end

---The first step from `step` on that matches.
---@return integer
function Range:next_immediate_step(step)
  if step > self.final_step then
    fail("Schedule.Range: no step matches from %d on; the last is %d", step, self.final_step)
  end
  if step <= self.start then return self.start end
  local next_step = self.start + math.ceil((step - self.start) / self.step) * self.step
  return math.min(next_step, self.final_step)
end

---for step in range:iter() do
function Range:iter()
  local i = -1
  return function()
    i = i + 1
    if i == self.count - 1 then return self.final_step end
    return i < self.count and self.start + i * self.step or nil
  end
end

---How many steps match.
---@return integer
function Range:len() return self.count end

Range.__len = Range.len

---@class Schedule
---@field start integer
---@field final_step integer
local Schedule = {}
Schedule.__index = Schedule
Schedule.__len = function(self) return self:len() end
Schedule.__name = "Schedule"

local function new_schedule(_, intervals)
  if type(intervals) == "table" and getmetatable(intervals) == Range then intervals = { intervals } end
  if type(intervals) ~= "table" or #intervals == 0 then
    fail("Schedule: intervals must be a list of Schedule.Range, not %s", options.describe_value(intervals))
  end
  local self, before = setmetatable({ intervals = {} }, Schedule), nil
  for i, range in ipairs(intervals) do
    if type(range) ~= "table" or getmetatable(range) ~= Range then
      fail("Schedule: interval %d must be a Schedule.Range, not %s", i, options.describe_value(range))
    end
    if before and range.start < before.stop then
      fail("Schedule: interval %d starts at %d, before interval %d ends, at %d; they must be in order, without overlap",
        i, range.start, i - 1, before.stop)
    end
    self.intervals[i], before = range, range
  end
  self.start, self.final_step = self.intervals[1].start, before.final_step
  return self
end

---@return boolean
function Schedule:match(step)
  for _, range in ipairs(self.intervals) do
    if range:match(step) then return true end
  end
  return false
end

---@return integer
function Schedule:next_immediate_step(step)
  for _, range in ipairs(self.intervals) do
    if step <= range.final_step then return range:next_immediate_step(step) end
  end
  fail("Schedule: no step matches from %d on; the last is %d", step, self.final_step)
end

---for step in schedule:iter() do
function Schedule:iter()
  local i, inner = 0, nil
  return function()
    while true do
      local step = inner and inner()
      if step then return step end
      i = i + 1
      if not self.intervals[i] then return nil end
      inner = self.intervals[i]:iter()
    end
  end
end

---@return integer
function Schedule:len()
  local count = 0
  for _, range in ipairs(self.intervals) do count = count + range:len() end
  return count
end

setmetatable(Range, { __call = new_range, __tostring = function() return "class Schedule.Range" end })
Schedule.Range = Range

return setmetatable(Schedule, { __call = new_schedule, __tostring = function() return "class Schedule" end })
