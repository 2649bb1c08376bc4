-- Random programs: a seed gives inputs, a state, and a body of random operations on them.
local ct = require "ctrain"
local core = require "ctrain.core"
local random = require "spec.support.random"

local programs = {}

local unary = { "exp", "log", "abs", "sqrt", "tanh", "sigmoid", "sin", "cos", "neg", "floor", "round", "sign", "erf",
  "log1p", "expm1", "rsqrt" }
local binary = { "add", "sub", "mul", "div", "maximum", "minimum", "pow", "remainder", "floor_divide" }
local compare = { "eq", "ne", "lt", "le", "gt", "ge" }
local floats = { "float32", "float32", "float32", "float64", "float16", "bfloat16" }
local dtypes = { "float32", "float64", "int32", "int64", "bool", "uint8", "int8", "float16" }

local function is_float(t)
  return t.dtype:find("float", 1, true) ~= nil
end

local function numel(t)
  local n = 1
  for _, d in ipairs(t.shape) do n = n * d end
  return n
end

local function as_float(t)
  return is_float(t) and t or t:to("float32")
end

-- Each maker gets the generator and the values so far, and gives a new value or nil where it does not apply.
local makers = {
  function(r, values)
    local x = as_float(r:pick(values))
    return x[r:pick(unary)](x)
  end,
  function(r, values)
    local x, y = r:pick(values), r:pick(values)
    local name = r:pick(binary)
    if name == "div" or name == "pow" or name == "remainder" or name == "floor_divide" then
      x, y = as_float(x), as_float(y)
    end
    if x.dtype == "bool" then x = x:to("int32") end
    if y.dtype == "bool" then y = y:to("float32") end
    return x[name](x, y)
  end,
  function(r, values)
    local x = as_float(r:pick(values))
    return x[r:pick { "add", "mul", "sub" }](x, r:uniform(-2, 2))
  end,
  function(r, values)
    local x, y = r:pick(values), r:pick(values)
    return x[r:pick(compare)](x, y)
  end,
  function(r, values)
    local c, x, y = r:pick(values), r:pick(values), r:pick(values)
    return core.where(c:ne(0), x, y)
  end,
  function(r, values) return r:pick(values):to(r:pick(dtypes)) end,
  function(r, values) -- reductions
    local x = r:pick(values)
    local name = r:pick { "sum", "max", "min", "mean", "prod", "sum", "argmax", "any" }
    if name == "mean" then x = as_float(x) end
    if x.dtype == "bool" and name ~= "any" then x = x:to("float32") end
    local n = #x.shape
    if n == 0 then return nil end
    if name == "max" or name == "min" then return (x[name](x, r:integer(1, n), r:uniform() < 0.5)) end
    if name == "argmax" then return x:argmax(r:integer(1, n)) end
    if name == "any" then return x:ne(0):any(r:integer(1, n)) end
    if r:uniform() < 0.2 then return x[name](x) end
    if n > 1 and r:uniform() < 0.2 and (name == "sum" or name == "mean") then
      return x[name](x, { r:integer(1, n - 1), n }, r:uniform() < 0.5)
    end
    return x[name](x, r:integer(1, n), r:uniform() < 0.7)
  end,
  function(r, values) -- normalised rows
    local x = as_float(r:pick(values))
    if #x.shape == 0 then return nil end
    local d = r:integer(1, #x.shape)
    local kind = r:integer(1, 3)
    if kind == 1 then return x:softmax(d) end
    local c = x - x:mean(d, true)
    if kind == 2 then return c / ((c * c):mean(d, true) + 1e-5):sqrt() end
    return x - x:exp():sum(d, true):log()
  end,
  function(r, values) -- movement
    local x = r:pick(values)
    local n = #x.shape
    if n == 0 then return x:expand(3) end
    local d, kind = r:integer(1, n), r:integer(1, 7)
    if kind == 1 then return x:flip(d) end
    if kind == 2 and n > 1 then return x:transpose(d, r:integer(1, n)) end
    if kind == 3 and x.shape[d] > 1 then return x:narrow(d, r:integer(1, x.shape[d] - 1), 1 + r:integer(0, 1)) end
    if kind == 4 then return x:reshape(numel(x)) end
    if kind == 5 and numel(x) < 2000 then
      local shape = { 2 }
      for _, extent in ipairs(x.shape) do shape[#shape + 1] = extent end
      return x:unsqueeze(1):expand(shape)
    end
    if kind == 6 then return x:select(d, r:integer(1, x.shape[d])) end
    return x:contiguous()
  end,
  function(r, values) -- products
    local x, y = as_float(r:pick(values)), as_float(r:pick(values))
    if #x.shape ~= 2 or #y.shape ~= 2 then return nil end
    y = y:to(x.dtype)
    if x.shape[2] == y.shape[1] then return x:matmul(y) end
    if x.shape[2] == y.shape[2] then return x:matmul(y:t()) end
    if x.shape[1] == y.shape[1] then return x:t():matmul(y) end
  end,
  function(r, values) -- writing through a view of a copy
    local x = r:pick(values)
    local n = #x.shape
    if n == 0 then return nil end
    local copy, old = x:clone(), x + x
    local d = r:integer(1, n)
    local part = copy:narrow(d, 1, math.max(1, math.floor(x.shape[d] / 2)))
    if r:uniform() < 0.5 or x.dtype == "bool" then part:fill_(1) else part:copy_(part + 1) end
    if x.dtype == "bool" then return copy end
    return copy + old
  end,
  function(r, values)
    local x = r:pick(values)
    if #x.shape == 0 or x.dtype == "bool" then return nil end
    return x:cumsum(r:integer(1, #x.shape))
  end,
  function(r, values)
    local x = r:pick(values)
    if #x.shape == 0 then return nil end
    local d = r:integer(1, #x.shape)
    local index = x:argsort(d)
    return r:uniform() < 0.5 and index or x:gather(d, index)
  end,
  function(r, values)
    local x, y = r:pick(values), r:pick(values)
    if #x.shape == 0 or #x.shape ~= #y.shape or x.dtype ~= y.dtype then return nil end
    local d = r:integer(1, #x.shape)
    for i, extent in ipairs(x.shape) do
      if i ~= d and y.shape[i] ~= extent then return nil end
    end
    return core.cat({ x, y, x }, d)
  end,
  function(r, values)
    local x = as_float(r:pick(values))
    return x * ct.rand_like(x):lt(0.8):to(x.dtype)
  end,
}

---A program of `seed`: its inputs, its states, and its body, which takes tensors in place of the inputs and gives a
---list.
---@param seed integer
---@param length? integer how many operations
function programs.new(seed, length)
  local r = random.new(seed)
  local rows, columns = r:integer(1, 40), r:integer(1, 90)
  if r:uniform() < 0.1 then columns = r:integer(4000, 9000) rows = r:integer(1, 3) end
  local function normal(dtype, ...)
    return (ct.randn({ ... }) * 2):to(dtype)
  end
  ct.manual_seed(seed)
  local inputs = {
    normal(r:pick(floats), rows, columns), normal(r:pick(floats), rows, columns), normal("float32", columns),
    normal(r:pick(floats), rows, 1), normal(r:pick(dtypes), rows, columns), normal("float32"),
  }
  local state = normal("float32", rows, columns)
  local counter = ct.zeros({ 3 }, "int64")
  local plan_seed = r:integer(1, 1000000000)
  length = length or r:integer(4, 30)
  local function body(given)
    local g = random.new(plan_seed)
    local values = {}
    for i, input in ipairs(given) do values[i] = input end
    values[#values + 1] = state * 1
    values[#values + 1] = ct.arange(columns):to("float32")
    local made = 0
    while made < length do
      made = made + 1
      local fits, value = pcall(g:pick(makers), g, values) -- shapes that do not go together are passed over
      if fits and value and numel(value) <= 20000 and #value.shape <= 4 and numel(value) > 0 then
        values[#values + 1] = value
      end
      if g:uniform() < 0.06 then
        local x = as_float(values[#values])
        if numel(x) == 1 or (#x.shape == 2 and x.shape[1] == rows and x.shape[2] == columns) then
          if g:uniform() < 0.5 then state:copy_((state * 0.5 + x):to("float32"))
          else state:narrow(1, 1, 1):copy_(x:sum():to("float32")) end
          values[#values + 1] = state * 2
        end
      end
    end
    counter:copy_(counter + 1)
    local outputs = {}
    for _ = 1, 5 do outputs[#outputs + 1] = g:pick(values) end
    outputs[#outputs + 1] = values[#values]
    return outputs
  end
  return { inputs = inputs, states = { state, counter }, body = body }
end

---Records the body as a trace.
function programs.record(program)
  local trace = core.trace_begin()
  local given = {}
  for i, input in ipairs(program.inputs) do given[i] = trace:input(input) end
  local ok, outputs = pcall(program.body, given)
  if not ok then
    trace:abort()
    error(outputs, 0)
  end
  trace:finish(outputs)
  return trace
end

local function flat(value, list)
  if type(value) ~= "table" then
    list[#list + 1] = value
  else
    for _, item in ipairs(value) do flat(item, list) end
  end
  return list
end

---The elements of a tensor in C order, as Lua values.
function programs.elements(t)
  local value = t:totable()
  return flat(value, {})
end

---The first place where two tensors differ in bits, or nil. Any NaN is like any other.
function programs.difference(a, b)
  if a.dtype ~= b.dtype then return a.dtype .. " against " .. b.dtype end
  local x, y = programs.elements(a), programs.elements(b)
  if #x ~= #y then return #x .. " elements against " .. #y end
  for i = 1, #x do
    local u, v = x[i], y[i]
    local same = u == v and (u ~= 0 or type(u) ~= "number" or 1 / u == 1 / v) or (u ~= u and v ~= v)
    if not same then
      local shape = table.concat(a.shape, "x")
      return ("element %d of [%s %s]: %s against %s"):format(i - 1, a.dtype, shape,
        tostring(u), tostring(v))
    end
  end
end

---Runs the trace as it is now, from the program's first state; gives outputs and states after it.
function programs.run(program, trace, before)
  for i, state in ipairs(program.states) do state:copy_(before[i]) end
  ct.manual_seed(7)
  local results = trace:run(program.inputs)
  for _, state in ipairs(program.states) do results[#results + 1] = state:clone() end
  return results
end

---Runs the program on the eager loops, then compiled; what differs first, or nil.
function programs.compare(seed, length)
  local program = programs.new(seed, length)
  local before = {}
  for i, state in ipairs(program.states) do before[i] = state:clone() end
  local trace = programs.record(program)
  local expected = programs.run(program, trace, before)
  local ok, problem = trace:compile { wait = true }
  assert(ok, problem)
  for round = 1, 2 do
    local got = programs.run(program, trace, before)
    for i = 1, #expected do
      local difference = programs.difference(expected[i], got[i])
      if difference then return ("seed %d, round %d, result %d: %s"):format(seed, round, i, difference), trace end
    end
  end
end

return programs
