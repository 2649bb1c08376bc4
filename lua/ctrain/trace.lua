-- trace.lua: ct.trace, steps that are recorded once for each signature and replayed from then on, without running
-- their Lua body.
--
-- What is an argument of the recorded step: tensors and numbers, also within nested tables. What its signature
-- holds: dtypes, shapes and sameness of tensors, booleans, strings, the identity of other objects, number, boolean and
-- string upvalues of the body, plain values that modules and optimizers decided by (guards.lua), whether gradients
-- are enabled and present. A tensor that requires grad is not an argument but state, and so part of the signature.
-- The body is recorded again at calls 2, 4, 8 ... of a signature, and must give the same graph.

local backend = require "ctrain.backend"
local closure = require "ctrain.closure"
local core = require "ctrain.core"
local guards = require "ctrain.guards"
local log = require "ctrain.log"
local options = require "ctrain.options"

local fail, is_tensor = options.fail, options.is_tensor
local unpack = table.unpack or unpack -- luacheck: ignore
local identity = core.h5.identity

-- recorded: functions told of each step recorded for the first time for a signature: (place, core's trace). waits:
-- whether all steps wait for the compiler.
local trace = { compile_by_default = true, recorded = {}, waits = false }

local many = 8

-- ---- Signatures ------------------------------------------------------------------------------------------

local identities, last_identity = setmetatable({}, { __mode = "k" }), 0

local function number_of(object)
  local number = identities[object]
  if not number then
    number = last_identity + 1
    identities[object], last_identity = number, number
  end
  return number
end

local function sorted_keys(value)
  local keys = {}
  for key in next, value do keys[#keys + 1] = key end
  table.sort(keys, function(a, b)
    if type(a) ~= type(b) then return type(a) < type(b) end
    if type(a) == "number" or type(a) == "string" then return a < b end
    return tostring(a) < tostring(b)
  end)
  return keys
end

-- Adds the words of an argument's signature to parts, and what is an input of the step to leaves. `held` gets what
-- must live on for the words to stay unique.
local function sign(value, parts, leaves, held, places)
  local kind = type(value)
  if is_tensor(value) then
    if places[value] then
      parts[#parts + 1] = "=" .. places[value]
    elseif value.requires_grad then
      parts[#parts + 1] = "state " .. identity(value)
      held[#held + 1] = value
    else
      leaves[#leaves + 1] = value
      places[value] = #leaves
      parts[#parts + 1] = value.dtype .. " " .. options.shape_text(value)
    end
  elseif kind == "number" then
    leaves[#leaves + 1] = value
    parts[#parts + 1] = "number"
  elseif kind == "table" and getmetatable(value) == nil then
    parts[#parts + 1] = "{"
    for _, key in ipairs(sorted_keys(value)) do
      parts[#parts + 1] = (type(key) == "number" and "%s" or "%q"):format(tostring(key))
      sign(value[key], parts, leaves, held, places)
    end
    parts[#parts + 1] = "}"
  elseif kind == "string" then
    parts[#parts + 1] = ("%q"):format(value)
  elseif kind == "boolean" or kind == "nil" then
    parts[#parts + 1] = tostring(value)
  else
    parts[#parts + 1] = kind .. " " .. number_of(value)
  end
end

-- A copy of an argument with the trace's tensors in place of its inputs, in the order of sign.
local function substitute(value, inputs, state)
  if is_tensor(value) then
    if state.places[value] then return state.places[value] end
    if value.requires_grad then return value end
    state.next = state.next + 1
    state.places[value] = inputs[state.next]
    return inputs[state.next]
  elseif type(value) == "number" then
    state.next = state.next + 1
    return inputs[state.next]
  elseif type(value) == "table" and getmetatable(value) == nil then
    local result = {}
    for _, key in ipairs(sorted_keys(value)) do result[key] = substitute(value[key], inputs, state) end
    return result
  end
  return value
end

local guarded = { number = true, boolean = true, string = true, ["nil"] = true }

-- The body's upvalues that are guarded: index = value, with `nil` standing for nil.
local nothing = {}
local function upvalues_of(fn)
  local values = {}
  if type(fn) ~= "function" then return values end
  local i = 1
  while true do
    local name, value = debug.getupvalue(fn, i)
    if not name then return values end
    if guarded[type(value)] then values[i] = value == nil and nothing or value end
    i = i + 1
  end
end

-- The name and both values of the first upvalue that is not as it was, or nil.
local function changed_upvalue(fn, values)
  for i, before in next, values do
    local name, now = debug.getupvalue(fn, i)
    local was = before
    if before == nothing then was = nil end
    if now ~= was and (now == now or was == was) then return name, was, now end
  end
end

-- ---- Recording -------------------------------------------------------------------------------------------

-- Stands for output i of the step in what it returns.
local Slot = {}

local function fill(value, outputs)
  if type(value) ~= "table" then return value end
  local metatable = getmetatable(value)
  if metatable == Slot then return outputs[value.index] end
  if metatable ~= nil then return value end
  local result = {}
  for key, item in next, value do result[key] = fill(item, outputs) end
  return result
end

local function pack(...) return { n = select("#", ...), ... } end

-- Runs the body on inputs of the trace, ends the trace, and tells what a run gives.
local function record_body(recording, step, arguments, leaves, entry)
  local inputs = {}
  for i, leaf in ipairs(leaves) do inputs[i] = recording:input(leaf) end
  local state, given = { next = 0, places = {} }, {}
  for i = 1, arguments.n do given[i] = substitute(arguments[i], inputs, state) end
  local results = pack(step.fn(unpack(given, 1, arguments.n)))
  local outputs, known = {}, {}
  local function add(tensor)
    outputs[#outputs + 1] = tensor
    return setmetatable({ index = #outputs }, Slot)
  end
  entry.results = closure.map_all(results, function(tensor)
    known[tensor] = known[tensor] or add(tensor)
    return known[tensor]
  end)
  entry.calls = closure.finish_recording()
  for _, call in ipairs(entry.calls) do call.arguments = closure.map_all(call.arguments, add) end
  entry.writes = {}
  for i, leaf in ipairs(leaves) do
    if is_tensor(leaf) and recording:written(inputs[i]) then
      entry.writes[#entry.writes + 1] = { leaf = i, output = add(inputs[i]).index }
    end
  end
  recording:finish(outputs)
end

local function warn_of_mode(step, model, recording)
  if model and model.training and not recording.trained and not step.warned_of_mode then
    step.warned_of_mode = true
    core.log("warning", step.place .. ": the model is in training mode, but the step trains nothing; call model:eval()")
  end
end

local function record(step, arguments, leaves)
  local entry = { upvalues = upvalues_of(step.fn) }
  local recording = core.trace_begin()
  closure.begin_recording()
  guards.begin()
  backend.recording(true)
  local ok, problem = pcall(record_body, recording, step, arguments, leaves, entry)
  local model = backend.recording(false)
  entry.guards = guards.finish()
  closure.finish_recording()
  if not ok then
    recording:abort()
    error(problem, 0)
  end
  entry.trace = recording
  warn_of_mode(step, model, recording)
  return entry
end

-- Records once more, with the body's prints silent and its upvalues put back, and compares.
local function check_again(step, entry, arguments, leaves)
  local print_function, before = print, upvalues_of(step.fn)
  rawset(_G, "print", function() end)
  local ok, again = pcall(record, step, arguments, leaves)
  rawset(_G, "print", print_function)
  for i, value in next, before do
    if value == nothing then value = nil end
    debug.setupvalue(step.fn, i, value)
  end
  if not ok then error(again, 0) end
  local same, difference = entry.trace:same(again.trace)
  again.trace:abort()
  if not same then
    fail("ct.trace: recorded again at its call %d, the step is not the same: %s. What varies between calls must be an "
      .. "argument, a tensor, or a number, boolean or string upvalue of the step", entry.uses, difference)
  end
end

-- ---- Calling ---------------------------------------------------------------------------------------------

-- Whether a recording fits this call; if not, why.
local function fits(step, entry)
  local name, was, now = changed_upvalue(step.fn, entry.upvalues)
  if name then return false, ("upvalue '%s' was %s and is %s"):format(name, tostring(was), tostring(now)) end
  local held, difference = guards.hold(entry.guards)
  if not held then
    return false, ("'%s' was %s and is not any more"):format(tostring(difference.key), tostring(difference.value))
  end
  if not entry.trace:fits() then return false, "a gradient that the step reads is there at one call, not at another" end
  return true
end

local function find(step, key)
  local why
  for _, entry in ipairs(step.entries) do
    if entry.key == key then
      local ok, reason = fits(step, entry)
      if ok then return entry end
      why = reason
    end
  end
  local last = step.entries[#step.entries]
  if last and not why then why = ("the arguments were [%s] and are [%s]"):format(last.key, key) end
  return nil, why
end

local function size_text(bytes)
  if bytes < 1e6 then return ("%.0f kB"):format(bytes / 1e3) end
  if bytes < 1e9 then return ("%.1f MB"):format(bytes / 1e6) end
  return ("%.1f GB"):format(bytes / 1e9)
end

-- Says once what the compiler made of a recording, or why the eager loops go on.
local function announce(step, entry)
  local news = entry.trace:news()
  if not news then return end
  entry.compiling = false
  if type(news) == "string" then
    if not trace.warned then
      trace.warned = true
      core.log("warning", ("%s: the step stays on the eager loops: %s"):format(step.place, news))
    end
    return
  end
  if news.note ~= "" then core.log("warning", news.note) end
  core.log("info", ("%s: %d kernels, %d library calls, arena %s, %s"):format(step.place, news.kernels, news.calls,
    size_text(news.arena_bytes), news.cached and "cached" or ("compiled in %.0f ms"):format(news.milliseconds)))
end

-- Says once what was found of a step that is not to be run.
local function report(step, entry)
  if entry.reported then return end
  entry.reported = true
  local found = entry.trace:summary()
  local text = ("%s: valid: %d nodes, %d kernels, %d library calls, arena %s, %d parameters of %s"):format(step.place,
    found.nodes, found.kernels, found.calls, size_text(found.arena_bytes), found.parameters,
    size_text(found.parameter_bytes))
  if found.others > 0 then
    text = text .. (", other state of %s in %d tensors"):format(size_text(found.other_bytes), found.others)
  end
  core.log("info", text)
end

-- Recordings that are compiled: [recording] = where their step is defined.
local compiled = setmetatable({}, { __mode = "k" })

---Whether the time of kernels is taken, in all compiled steps.
function trace.measure(on)
  trace.measuring = on
  for recording in pairs(compiled) do recording:measure(on) end
end

---The kernels of each compiled step that ran while time was taken: lists with place and runs.
---@return table[]
function trace.kernels()
  local steps = {}
  for recording, place in pairs(compiled) do
    local runs, kernels = recording:kernels()
    if runs then
      kernels.place, kernels.runs = place, runs
      steps[#steps + 1] = kernels
    end
  end
  table.sort(steps, function(a, b) return a.place < b.place end)
  return steps
end

local function start_compiler(step, entry)
  local dry_run = backend.dry_run()
  if not step.compile or dry_run == "validate_only" then return end
  local wait = step.wait or trace.waits or dry_run ~= nil
  local started, why = entry.trace:compile({ wait = wait, directory = backend.compile_dir() })
  entry.compiling = started
  if started then
    compiled[entry.trace] = step.place
    if trace.measuring then entry.trace:measure(true) end
    announce(step, entry)
  elseif not trace.warned then
    trace.warned = true
    core.log("warning", ("%s: the step stays on the eager loops: %s"):format(step.place, why))
  end
end

local function add_entry(step, key, held, why, arguments, leaves)
  local entry = record(step, arguments, leaves)
  entry.key, entry.held, entry.uses = key, held, 1
  table.insert(step.entries, entry)
  for _, told in ipairs(trace.recorded) do told(step.place, entry.trace) end
  start_compiler(step, entry)
  if log.wants("trace") then
    core.log("info", ("%s: step recorded%s"):format(step.place, why and ", for " .. why or ""))
  end
  if #step.entries == many + 1 then
    core.log("warning", ("%s: the step was recorded %d times; what varies: %s"):format(step.place, many + 1, why))
  end
  return entry
end

-- Writes what the step wrote to its arguments back to them.
local function write_back(entry, leaves, outputs)
  if #entry.writes == 0 then return end
  local function cell(tensor) return identity(tensor):match("^[^+]*") end
  for _, write in ipairs(entry.writes) do
    local target = leaves[write.leaf]
    for i, other in ipairs(leaves) do
      if i ~= write.leaf and is_tensor(other) and cell(other) == cell(target) then
        fail("ct.trace: the step writes to an argument that shares its elements with another one; pass a clone()")
      end
    end
  end
  core.no_grad(function()
    for _, write in ipairs(entry.writes) do leaves[write.leaf]:copy_(outputs[write.output]) end
  end)
end

-- Whether a recording takes its arguments as they are and gives its outputs as they are, and does nothing else.
local function is_plain(entry, arguments, leaves)
  if #leaves ~= arguments.n or #entry.calls > 0 or #entry.writes > 0 then return false end
  for i = 1, arguments.n do
    if not (rawequal(arguments[i], leaves[i]) and is_tensor(leaves[i])) then return false end
  end
  for i = 1, entry.results.n do
    local result = entry.results[i]
    if type(result) ~= "table" or getmetatable(result) ~= Slot or result.index ~= i then return false end
  end
  return entry.trace.results == entry.results.n
end

local function call(step, ...)
  if core.tracing() then return step.fn(...) end
  local last = step.plain
  if last and last.uses + 1 < last.check_at and last.trace:accepts(...) and fits(step, last) then
    last.uses = last.uses + 1
    return last.trace:call(...)
  end
  local arguments = pack(...)
  local parts, leaves, held, places = { core.is_grad_enabled() and "" or "no grad" }, {}, {}, {}
  for i = 1, arguments.n do sign(arguments[i], parts, leaves, held, places) end
  local key = table.concat(parts, " ")
  local entry, why = find(step, key)
  if backend.dry_run() then
    entry = entry or add_entry(step, key, held, why, arguments, leaves)
    entry.check_at = entry.check_at or math.huge
    report(step, entry)
    return unpack(fill(entry.results, entry.trace:blank()), 1, entry.results.n)
  end
  if entry then
    entry.uses = entry.uses + 1
    if entry.uses >= entry.check_at then
      check_again(step, entry, arguments, leaves)
      entry.check_at = 2 * entry.uses
    end
  else
    entry = add_entry(step, key, held, why, arguments, leaves)
    entry.check_at = 2
  end
  if entry.compiling then announce(step, entry) end
  local begin = log.begin()
  local outputs = entry.trace:run(leaves)
  log.finish(step.place, "step", begin)
  write_back(entry, leaves, outputs)
  for _, queued in ipairs(entry.calls) do
    closure.queue({
      fn = queued.fn, checkpoint = queued.checkpoint, repeating = true,
      arguments = fill(queued.arguments, outputs),
    })
  end
  if not entry.compiling and not begin then step.plain = is_plain(entry, arguments, leaves) and entry or nil end
  local results = fill(entry.results, outputs)
  return unpack(results, 1, entry.results.n)
end

local function place_of(fn)
  if type(fn) ~= "function" then return "ct.trace" end
  local info = debug.getinfo(fn, "S")
  return ("%s:%d"):format(info.short_src, info.linedefined)
end

---Makes a step function that is recorded at its first call for each signature, and replayed from then on without
---running its Lua body. Inside, no tensor has a value: step closures receive them.
---@param step_fn function
---@param given table? wait: whether the first call waits for the compiler; compile: false keeps the step on the
---eager loops
---@return function
function trace.trace(step_fn, given)
  local o = options.check(given, { wait = false, compile = trace.compile_by_default }, "ct.trace")
  options.boolean("ct.trace", "wait", o.wait)
  options.boolean("ct.trace", "compile", o.compile)
  local metatable = type(step_fn) == "table" and getmetatable(step_fn)
  if type(step_fn) ~= "function" and not (metatable and metatable.__call) then
    fail("ct.trace: step_fn must be a function, not %s", options.describe_value(step_fn))
  end
  local step = { fn = step_fn, entries = {}, place = place_of(step_fn), compile = o.compile, wait = o.wait }
  return function(...) return call(step, ...) end
end

return trace
