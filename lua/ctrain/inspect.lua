-- inspect.lua: what the command line's options show of traced steps and of the cache of compiled ones.

local core = require "ctrain.core"

local inspect = {}

-- Options that wait for steps: what was asked for, and how many were written.
local pending = {}

local function complain(format, ...) error(format:format(...), 0) end

-- FILE for the first step, then FILE-2 and so on, before the extension.
local function numbered(path, number)
  if number == 1 then return path end
  local base, extension = path:match("^(.*[^/.])(%.[^/.]*)$")
  if not base then base, extension = path, "" end
  return ("%s-%d%s"):format(base, number, extension)
end

local function write(option, path, text, mode)
  local file, problem = io.open(path, mode or "wb")
  if not file then complain("%s: %s", option, problem) end
  local ok, why = file:write(text)
  local closed, reason = file:close()
  if not (ok and closed) then complain("%s: %s: %s", option, path, why or reason) end
end

-- Has write_step(path, recording) called for each step that is recorded for the first time.
local function for_each_step(option, path, write_step)
  -- a place that can't be written to is known before the script has run for a day
  local before = io.open(path, "rb")
  if before then before:close() end
  write(option, path, "", "ab")
  local request = { option = option, path = path, written = 0, is_new = not before }
  pending[#pending + 1] = request
  table.insert(require("ctrain.trace").recorded, function(place, recording)
    request.written = request.written + 1
    local target = numbered(path, request.written)
    write_step(target, recording)
    core.log("info", ("%s: the step at %s: %s"):format(option, place, target))
  end)
end

---Writes the C of each step that is traced from now on.
---@param path string of the first; the others get numbers
function inspect.emit_c(path)
  for_each_step("--emit-c", path, function(target, recording) write("--emit-c", target, recording:render()) end)
end

---Draws the graph of each step, as recorded and as fused.
---@param path string ending in .svg, .dot or .txt
function inspect.graph(path)
  local kind = path:match("%.(%a+)$")
  if kind ~= "svg" and kind ~= "dot" and kind ~= "txt" then
    complain("--graph: '%s' must end in .svg, .dot or .txt, which says what is drawn", path)
  end
  if kind == "svg" then
    local ok, problem = pcall(core.inspect.svg)
    if not ok then complain("--graph: %s", problem) end
  end
  for_each_step("--graph", path, function(target, recording)
    if kind ~= "svg" then
      write("--graph", target, recording:graph(kind))
      return
    end
    local dot = os.tmpname()
    write("--graph", dot, recording:graph("dot"))
    local ok, problem = pcall(core.inspect.svg, dot, target)
    os.remove(dot)
    if not ok then complain("--graph: %s", problem) end
  end)
end

local bisected

---Has every compiled run of every step compared with the eager loops, kernel by kernel; the first difference is an
---error that names the kernel.
function inspect.bisect()
  local trace = require "ctrain.trace"
  trace.waits, bisected = true, {}
  table.insert(trace.recorded, function(_, recording)
    recording:bisect()
    bisected[#bisected + 1] = recording
  end)
end

---Says which options met no traced step, and what a bisection has compared.
function inspect.finish()
  if bisected then
    local runs = 0
    for _, recording in ipairs(bisected) do runs = runs + recording:bisect() end
    if runs == 0 then
      core.log("warning", "--bisect: the script ran no compiled step, so there is nothing to compare")
    else
      core.log("info", ("--bisect: %d runs of %d steps, compiled and on the eager loops: the same bits"):format(runs,
        #bisected))
    end
  end
  for _, request in ipairs(pending) do
    if request.written == 0 then
      if request.is_new then os.remove(request.path) end
      core.log("warning", ("%s: the script traced no step, so there is nothing to show"):format(request.option))
    end
  end
end

-- ---- The cache -------------------------------------------------------------------------------------------

local function size_text(bytes)
  if bytes < 1e6 then return ("%.0f kB"):format(math.ceil(bytes / 1e3)) end
  return ("%.1f MB"):format(bytes / 1e6)
end

local function age_text(seconds)
  for _, unit in ipairs { { 86400, "days" }, { 3600, "hours" }, { 60, "minutes" } } do
    if seconds >= 2 * unit[1] then return ("%d %s"):format(math.floor(seconds / unit[1]), unit[2]) end
  end
  return ("%d seconds"):format(math.max(0, math.floor(seconds)))
end

---Prints the compiled steps that a cache directory holds, youngest first.
---@param directory string? default: the user's cache
function inspect.cache(directory)
  local files, path = core.inspect.cache_files(directory)
  local artifacts, total = {}, 0
  for _, file in ipairs(files) do
    local artifact = artifacts[file.key]
    if not artifact then
      artifact = { key = file.key, bytes = 0, age = file.age }
      artifacts[file.key] = artifact
      artifacts[#artifacts + 1] = artifact
    end
    artifact.bytes, artifact.age = artifact.bytes + file.bytes, math.min(artifact.age, file.age)
    total = total + file.bytes
  end
  if #artifacts == 0 then
    print(path .. ": no compiled steps")
    return
  end
  table.sort(artifacts, function(a, b)
    if a.age ~= b.age then return a.age < b.age end
    return a.key < b.key
  end)
  print(("%s: %d compiled steps, %s"):format(path, #artifacts, size_text(total)))
  for _, artifact in ipairs(artifacts) do
    print(("  %s  %9s  %s"):format(artifact.key, size_text(artifact.bytes), age_text(artifact.age)))
  end
end

---Removes the compiled steps of a cache directory, and no other file in it.
---@param directory string? default: the user's cache
function inspect.clear_cache(directory)
  local files, bytes, path = core.inspect.clear_cache(directory)
  print(("%s: %d files removed, %s"):format(path, files, size_text(bytes)))
end

return inspect
