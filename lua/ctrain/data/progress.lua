-- progress.lua: how far a run is, on standard error: one bar that is drawn over on a terminal, plain lines where
-- standard error is something else. Runs of a moment show nothing.

local core = require "ctrain.core"

local progress = {}
progress.__index = progress

local width = 24
local first_after, bar_every, line_every = 0.3, 0.1, 0.5 -- seconds

---@param total integer steps
---@param rate fun(): number samples a second
function progress.new(total, rate)
  local now = core.clock()
  return setmetatable({
    total = total, rate = rate, start = now, shown = now + first_after, next_tenth = 1, values = {}, order = {},
    terminal = core.is_terminal(),
  }, progress)
end

---Takes values to show: {loss = 0.12}.
function progress:report(values)
  local names = {}
  for name in pairs(values) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    if self.values[name] == nil then self.order[#self.order + 1] = name end
    self.values[name] = values[name]
  end
end

local function duration(seconds)
  seconds = math.floor(seconds + 0.5)
  if seconds < 3600 then return ("%d:%02d"):format(math.floor(seconds / 60), seconds % 60) end
  return ("%d:%02d:%02d"):format(math.floor(seconds / 3600), math.floor(seconds / 60) % 60, seconds % 60)
end

local function number(value)
  if value >= 1000 then return ("%.0f"):format(value) end
  return ("%.3g"):format(value)
end

function progress:details(done, now)
  local parts = {}
  for _, name in ipairs(self.order) do parts[#parts + 1] = ("%s %.4f"):format(name, self.values[name]) end
  parts[#parts + 1] = number(self.rate()) .. " samples/s"
  local elapsed = now - self.start
  if done < self.total then
    parts[#parts + 1] = duration(elapsed / done * (self.total - done)) .. " left"
  else
    parts[#parts + 1] = ("%.1f s"):format(elapsed)
  end
  return table.concat(parts, "  ")
end

local function bar(fraction)
  local eighths = math.floor(fraction * width * 8)
  local full = math.floor(eighths / 8)
  local parts = { "", "▏", "▎", "▍", "▌", "▋", "▊", "▉" }
  local part = full < width and parts[eighths % 8 + 1] or ""
  return ("█"):rep(full) .. part .. (" "):rep(width - full - (part ~= "" and 1 or 0))
end

---Tells that `done` steps are done.
function progress:update(done)
  local now = core.clock()
  local last = done == self.total and self.any
  if self.terminal then
    if not last and now - self.shown < bar_every then return end
    io.stderr:write(("\r%3d%% %s %d/%d  %s\27[K"):format(math.floor(100 * done / self.total), bar(done / self.total),
      done, self.total, self:details(done, now)))
    io.stderr:flush()
  else
    if not last and (done * 10 < self.next_tenth * self.total or now - self.shown < line_every) then return end
    if done == self.printed then return end
    io.stderr:write(("step %d/%d  %s\n"):format(done, self.total, self:details(done, now)))
    self.next_tenth, self.printed = math.floor(done * 10 / self.total) + 1, done
  end
  self.shown, self.any = now, true
end

---Leaves the line of the bar.
function progress:finish()
  if self.any and self.terminal then io.stderr:write("\n") end
  self.any = false
end

return progress
