-- backend.lua: ct.backend, the one backend of a process, and ct.compile, which makes a model ready for traced steps.

local closure = require "ctrain.closure"
local core = require "ctrain.core"
local options = require "ctrain.options"

local fail = options.fail

local backend = {}

local current

-- Options of each type. Those of another type are taken with a warning, so that one script serves all.
local takes = {
  CPU = { artifact_dir = "./ctrain_logs", compile_dir = options.none, compile_only = false, validate_only = false },
  GPU = { artifact_dir = "./ctrain_logs", enable_distributed = false, main_process_id = 0, dist_backend = "nccl",
    init_method = options.none, sync_batchnorm = false },
  CSX = { artifact_dir = "./ctrain_logs", compile_dir = options.none, compile_only = false, validate_only = false,
    cluster_config = options.none },
}

-- ---- The object ------------------------------------------------------------------------------------------

---@class Backend
---@field backend_type "CPU"
---@field device table calling it with a function runs the function with the device chosen
---@field torch_device string
---@field artifact_dir string where files about runs go; made when the first is written
---@field compile_only boolean steps are recorded and compiled, not run
---@field validate_only boolean steps are recorded, neither compiled nor run
local methods = {}

local device_metatable = {
  __tostring = function(device) return device.type end,
  __call = function(_, fn, ...)
    if type(fn) ~= "function" then
      fail("backend.device: call it with a function that builds the model, not %s", options.describe_value(fn))
    end
    return fn(...)
  end,
  __name = "device",
}

local fields = {
  torch_device = function(self) return self.device.type end,
  is_cpu = function(self) return self.backend_type == "CPU" end,
  is_gpu = function(self) return self.backend_type == "GPU" end,
  is_csx = function(self) return self.backend_type == "CSX" end,
  is_tracing = function() return core.tracing() end,
  is_e2e_execution = function(self) return not (self._compile_only or self._validate_only) end,
  compile_only = function(self) return self._compile_only end,
  validate_only = function(self) return self._validate_only end,
  artifact_dir = function(self) return self._artifact_dir end,
  compile_dir = function(self) return rawget(self, "_compile_dir") end,
}

local absent = { cluster = true, cluster_config = true }

local function check_path(name, value)
  if type(value) ~= "string" or value == "" then
    fail("ct.backend: %s must be a path, not %s", name, options.describe_value(value))
  end
  return value
end

local object_metatable = {
  __index = function(self, key)
    if fields[key] then return fields[key](self) end
    if methods[key] then return methods[key] end
    if absent[key] or type(key) ~= "string" then return nil end
    local names = { "backend_type", "device" }
    for name in pairs(fields) do names[#names + 1] = name end
    local near = options.nearest(key, names)
    fail("backend has no field '%s'%s", key, near and " (did you mean '" .. near .. "'?)" or "")
  end,
  __newindex = function(self, key, value)
    if key ~= "artifact_dir" then fail("the field '%s' of a backend cannot be set", tostring(key)) end
    rawset(self, "_artifact_dir", check_path("artifact_dir", value))
  end,
  __tostring = function(self) return "backend " .. self.backend_type end,
  __name = "Backend",
}

-- ---- Making it -------------------------------------------------------------------------------------------

-- Sorts the given options into the type's own, and names of other types' that are passed over.
local function sort_options(kind, given)
  local own, foreign, names = {}, {}, {}
  for name in pairs(takes[kind]) do names[#names + 1] = name end
  table.sort(names)
  for name, value in pairs(given) do
    local elsewhere = false
    for _, others in pairs(takes) do elsewhere = elsewhere or others[name] ~= nil end
    if takes[kind][name] ~= nil then
      own[name] = value
    elseif elsewhere then
      foreign[#foreign + 1] = name
    else
      options.check(given, takes[kind], "ct.backend")
    end
  end
  table.sort(foreign)
  return own, foreign
end

local function create(kind, given)
  if type(kind) ~= "string" then
    fail("ct.backend: expected backend_type, \"CPU\", \"GPU\" or \"CSX\", not %s", options.describe_value(kind))
  end
  local name = kind:upper()
  if not takes[name] then
    fail("ct.backend: invalid backend type '%s' specified; expected \"CPU\", \"GPU\" or \"CSX\"", kind)
  end
  if current then
    fail("ct.backend: cannot instantiate multiple backends. A backend with type %s has already been instantiated; "
      .. "ct.backend() gives it", current.backend_type)
  end
  if given ~= nil and type(given) ~= "table" then
    fail("ct.backend: options are a table, not a %s", type(given))
  end
  local own, foreign = sort_options(name, given or {})
  if name ~= "CPU" then
    fail("ct.backend: this build has no %s backend; use \"CPU\"", name)
  end
  local artifact_dir = check_path("artifact_dir", own.artifact_dir or takes.CPU.artifact_dir)
  local compile_dir = own.compile_dir and check_path("compile_dir", own.compile_dir)
  local compile_only = options.boolean("ct.backend", "compile_only", own.compile_only or false)
  local validate_only = options.boolean("ct.backend", "validate_only", own.validate_only or false)
  if compile_only and validate_only then
    fail("ct.backend: compile_only and validate_only exclude each other; set one of them")
  end
  if #foreign > 0 then
    core.log("warning", ("ct.backend: %s passed over: %s"):format(table.concat(foreign, ", "),
      "the CPU backend has no such option" .. (#foreign > 1 and "s" or "")))
  end
  current = setmetatable({
    backend_type = name, device = setmetatable({ type = name:lower() }, device_metatable), _artifact_dir = artifact_dir,
    _compile_dir = compile_dir, _compile_only = compile_only, _validate_only = validate_only,
  }, object_metatable)
  return current
end

---Makes the backend of this process; without arguments, gives it.
---@param backend_type "CPU"|"GPU"|"CSX"|nil in any case
---@param given table? options: artifact_dir, compile_dir (where compiled steps are kept), compile_only and
---validate_only (steps are recorded and compiled, or only recorded; no step runs, nor a closure, and parameters are
---never made), and those of other types, which are passed over with a warning
---@return Backend
function backend.backend(backend_type, given)
  if backend_type ~= nil or given ~= nil then return create(backend_type, given) end
  if not current then
    fail("ct.backend: no active backend found; make one with ct.backend(\"CPU\"), or compile a model")
  end
  return current
end

---Deprecated: use ct.backend().
---@param raise_exception boolean? default true
---@param raise_warning boolean? default true
---@return Backend?
function backend.current_backend(raise_exception, raise_warning)
  if type(raise_exception) == "table" then
    local o = options.check(raise_exception, { raise_exception = true, raise_warning = true }, "ct.current_backend")
    raise_exception, raise_warning = o.raise_exception, o.raise_warning
  end
  if raise_warning ~= false then
    core.log("warning", "ct.current_backend is deprecated; use ct.backend()")
  end
  if not current and raise_exception ~= false then return backend.backend() end
  return current
end

---The device of the current backend; "cpu" before there is one.
---@return string
function backend.current_torch_device() return current and current.torch_device or "cpu" end

---Whether the active device is a CSX device.
---@return boolean
function backend.use_cs() return current ~= nil and current.is_csx end

---Where compiled steps are kept, or nil for the user's cache.
---@return string?
function backend.compile_dir() return current and current.compile_dir end

---What is done in place of running steps, or nil: then they are run.
---@return "compile_only"|"validate_only"|nil
function backend.dry_run()
  if not current then return nil end
  return current.compile_only and "compile_only" or current.validate_only and "validate_only" or nil
end

---Where files about runs go.
---@return string
function backend.artifact_dir() return current and current.artifact_dir or takes.CPU.artifact_dir end

-- ---- Compiling -------------------------------------------------------------------------------------------

local compiled_models = setmetatable({}, { __mode = "k" }) -- compiled = model
-- The compiled model that the traced step being recorded has used, or nil.
local used_in_step, in_step

---Tells that a traced step begins (true) or ends (false) to be recorded. At the end, gives the model it used.
---@return table? model
function backend.recording(begins)
  local used = used_in_step
  in_step, used_in_step = begins, nil
  return used
end

local function note_use(model)
  if not in_step then return end
  if used_in_step and used_in_step ~= model then
    fail("ct.compile: more than one compiled model was used in a step function")
  end
  used_in_step = model
end

local compiled_metatable = {
  __call = function(compiled, ...)
    local model = compiled_models[compiled]
    note_use(model)
    return model(...)
  end,
  __index = function(compiled, key)
    local model = compiled_models[compiled]
    if key == "device" then return current and current.device end
    local value = type(key) == "string" and key:sub(1, 1) ~= "_" and model[key] or nil
    if type(value) ~= "function" then
      fail("a compiled model shows the methods of its model, not '%s'; ask the model itself", tostring(key))
    end
    return function(first, ...)
      if first ~= compiled then return value(first, ...) end
      if core.tracing() then note_use(model) end
      local function out(...)
        if select("#", ...) == 1 and rawequal((...), model) then return compiled end
        return ...
      end
      return out(value(model, ...))
    end
  end,
  __newindex = function(_, key)
    fail("a compiled model has no attributes to set ('%s'); set it on the model", tostring(key))
  end,
  __tostring = function(compiled) return "compiled " .. tostring(compiled_models[compiled]) end,
  __name = "CompiledModel",
}

---Makes a model ready for traced steps. What it returns is called as the model is, and has its methods.
---@param model nn.Module
---@param given string|Backend|nil default: the current backend, or a new CPU backend
function backend.compile(model, given)
  if type(given) == "table" and getmetatable(given) == nil then
    given = options.check(given, { backend = options.none }, "ct.compile").backend
  end
  if type(model) ~= "table" or not rawget(model, "_values") then
    fail("ct.compile: model must be an nn.Module, not %s", options.describe_value(model))
  end
  if type(given) == "string" then
    if not current then
      create(given)
    elseif current.backend_type ~= given:upper() then
      fail("ct.compile: '%s' is a different backend than the currently initialized %s", given, current.backend_type)
    end
  elseif given == nil then
    if not current then create("CPU") end
  elseif getmetatable(given) ~= object_metatable then
    fail("ct.compile: expected backend to be a string, a backend or nil, not %s", options.describe_value(given))
  elseif given ~= current then
    fail("ct.compile: the model is given a different backend than the currently initialized one")
  end
  local compiled = setmetatable({}, compiled_metatable)
  compiled_models[compiled] = model
  return compiled
end

closure.set_backend_test(function() return current ~= nil end, function() return backend.dry_run() ~= nil end)

return backend
