-- Random programs: views, writes through views, reductions, broadcasts, types, random draws. Each is run eagerly and as
-- a traced step, three times in a row, and must give the same bits. A failing one is printed with its seed.
local ct = require "ctrain"

-- Park and Miller's minimal standard generator: exact in doubles, the same in every Lua.
local function generator(seed)
  local state = seed * 7919 % 2147483646 + 1
  return function(n)
    state = state * 16807 % 2147483647
    return state % n + 1
  end
end

local shapes = { { 2, 3 }, { 3 }, { 1, 3 }, { 2, 1 }, {}, { 2, 3, 2 }, { 0, 3 } }
local types = { "float32", "float32", "float64", "int32", "int64", "bfloat16", "bool" }

-- The program as a list of lines, each a function of the list of tensors so far, and its text.
local function make_program(seed)
  local pick = generator(seed)
  local program = {}
  local function line(text, fn) program[#program + 1] = { text = text, fn = fn } end
  local count = 3
  for _ = 1, 6 + pick(8) do
    local a, b, dim, kind = pick(count), pick(count), pick(2), pick(12)
    if kind == 1 then
      line(("t%d = t%d + t%d"):format(count + 1, a, b), function(t) return t[a] + t[b] end)
    elseif kind == 2 then
      line(("t%d = t%d * t%d - 1"):format(count + 1, a, b), function(t) return t[a] * t[b] - 1 end)
    elseif kind == 3 then
      line(("t%d = sum(t%d, %d)"):format(count + 1, a, dim), function(t) return t[a]:sum(math.min(dim, t[a].ndim)) end)
    elseif kind == 4 then
      line(("t%d = tanh(t%d)"):format(count + 1, a), function(t) return t[a]:tanh() end)
    elseif kind == 5 then
      line(("t%d = where(t%d < t%d, ...)"):format(count + 1, a, b), function(t)
        return ct.where(t[a]:lt(t[b]), t[a], t[b])
      end)
    elseif kind == 6 then
      line(("t%d = transpose of t%d"):format(count + 1, a), function(t) return t[a]:transpose(1, -1) end)
    elseif kind == 7 then
      line(("t%d = t%d[1]"):format(count + 1, a), function(t) return t[a][1] end)
    elseif kind == 8 then
      line(("t%d += t%d"):format(a, b), function(t) t[a]:add_(t[b]) return t[a] end)
    elseif kind == 9 then
      line(("t%d[1] = t%d[-1]"):format(a, a), function(t) t[a][1] = t[a][-1] return t[a] end)
    elseif kind == 10 then
      local dtype = types[pick(#types)]
      line(("t%d = t%d to %s"):format(count + 1, a, dtype), function(t) return t[a]:to(dtype) end)
    elseif kind == 11 then
      line(("t%d = t%d + rand"):format(count + 1, a), function(t) return t[a] + ct.rand(1) end)
    else
      line(("t%d = flip(t%d) max %d"):format(count + 1, a, dim), function(t) return t[a]:flip(1):amax(dim, true) end)
    end
    count = count + 1
  end
  local inputs = {}
  for i = 1, 3 do inputs[i] = { shape = shapes[pick(#shapes)], dtype = types[pick(#types)] } end
  return program, inputs
end

-- Runs the lines; one that fails (shapes that do not fit, say) repeats its first operand and goes on.
local said, failed = 0, 0
local function run(program, first)
  local t = { first[1], first[2], first[3] }
  for _, step in ipairs(program) do
    local ok, value = pcall(step.fn, t)
    said, failed = said + 1, failed + (ok and 0 or 1)
    t[#t + 1] = ok and value or t[1]
  end
  local results = {}
  for i = 4, #t do results[#results + 1] = t[i] end
  return results
end

local function text_of(results)
  local texts = {}
  for i, t in ipairs(results) do
    local flat, items = t:reshape(-1):totable(), {}
    for j, value in ipairs(flat) do
      items[j] = type(value) == "number" and ("%.17g"):format(value) or tostring(value)
    end
    texts[i] = ("%s %s: %s"):format(t.dtype, table.concat(t.shape, "x"), table.concat(items, " "))
  end
  return table.concat(texts, "\n")
end

local function inputs_of(specs, seed)
  ct.manual_seed(seed)
  local list = {}
  for i, spec in ipairs(specs) do list[i] = (ct.randn(spec.shape) * 3):to(spec.dtype) end
  return list
end

describe("a hundred random programs", function()
  it("give the same bits eager and traced, at every call", function()
    for seed = 1, 100 do
      local program, specs = make_program(seed)
      local eager_in, traced_in = inputs_of(specs, seed), inputs_of(specs, seed)
      local step = ct.trace(function(x, y, z) return run(program, { x, y, z }) end, { compile = false })
      local eager, traced = {}, {}
      ct.manual_seed(seed)
      for call = 1, 3 do eager[call] = text_of(run(program, eager_in)) .. "\n" .. text_of(eager_in) end
      ct.manual_seed(seed)
      for call = 1, 3 do
        traced[call] = text_of(step(traced_in[1], traced_in[2], traced_in[3])) .. "\n" .. text_of(traced_in)
      end
      if table.concat(eager, "\n") ~= table.concat(traced, "\n") then
        local lines = {}
        for i, item in ipairs(program) do lines[i] = item.text end
        assert.equal(table.concat(eager, "\n"), table.concat(traced, "\n"),
          ("seed %d\n%s"):format(seed, table.concat(lines, "\n")))
      end
    end
    assert.is_true(failed < said / 3, ("%d of %d operations did not fit together"):format(failed, said))
  end)
end)
